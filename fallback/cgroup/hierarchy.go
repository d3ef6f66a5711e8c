package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Hierarchy is a mounted cgroup v2 hierarchy.
type Hierarchy struct {
	// mount is where it is mounted.
	mount string
	// root is the cgroup that the mount shows at its top, normally "/".
	root string
}

// ErrNoHierarchy says that no cgroup v2 file system is mounted where this
// process can see it.
var ErrNoHierarchy = errors.New("no cgroup2 file system is mounted")

// FindHierarchy finds the cgroup v2 mount of this mount namespace. It is not
// always /sys/fs/cgroup: hybrid hosts have it one level below (cgroups(7)).
// The error is ErrNoHierarchy, or that of reading /proc/self/mountinfo.
func FindHierarchy() (*Hierarchy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot find the cgroup2 mount: %w", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if h, ok := parseMount(s.Text()); ok {
			return h, nil
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("cannot read /proc/self/mountinfo: %w", err)
	}
	return nil, ErrNoHierarchy
}

// parseMount takes one line of proc_pid_mountinfo(5).
func parseMount(line string) (*Hierarchy, bool) {
	before, after, ok := strings.Cut(line, " - ")
	if !ok || !strings.HasPrefix(after, "cgroup2 ") {
		return nil, false
	}
	return mountOf(before)
}

// mountOf takes the part of such a line that says what is mounted where.
func mountOf(before string) (*Hierarchy, bool) {
	fields := strings.Fields(before)
	if len(fields) < 5 {
		return nil, false
	}
	root, ok := unescape(fields[3])
	mount, ok2 := unescape(fields[4])
	if !ok || !ok2 || !filepath.IsAbs(mount) || !filepath.IsAbs(root) {
		return nil, false
	}
	return &Hierarchy{mount: mount, root: root}, true
}

// unescape resolves the octal escapes that the kernel writes for space, tab,
// newline and backslash.
func unescape(s string) (string, bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 >= len(s) {
			return "", false
		}
		n, err := strconv.ParseUint(s[i+1:i+4], 8, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(n))
		i += 3
	}
	return b.String(), true
}

// path is where the cgroup is in the file system. The cgroup is an absolute
// path below the root of our cgroup namespace, as /proc/PID/cgroup and
// systemd's ControlGroup have it. Where there is no hierarchy, nil, it is nowhere.
func (h *Hierarchy) path(cgroup string) (string, error) {
	if h == nil {
		return "", ErrNoHierarchy
	}
	if !filepath.IsAbs(cgroup) || filepath.Clean(cgroup) != cgroup {
		return "", fmt.Errorf("cannot use the cgroup %q: not a clean absolute path", cgroup)
	}
	rel := cgroup
	if h.root != "/" {
		below, ok := strings.CutPrefix(cgroup, h.root)
		if !ok || below != "" && below[0] != '/' {
			return "", fmt.Errorf("cannot see the cgroup %s: the mount %s shows %s only", cgroup, h.mount, h.root)
		}
		rel = below
	}
	return filepath.Join(h.mount, rel), nil
}

// Controllers lists the controllers that a cgroup can give to its children.
func (h *Hierarchy) Controllers(cgroup string) ([]string, error) {
	p, err := h.path(cgroup)
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(filepath.Join(p, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the controllers of %s: %w", cgroup, err)
	}
	return strings.Fields(string(b)), nil
}

// isCgroup2 is true when the open directory is on a cgroup2 file system.
func isCgroup2(fd int) bool {
	var s unix.Statfs_t
	return unix.Fstatfs(fd, &s) == nil && s.Type == unix.CGROUP2_SUPER_MAGIC
}

// Mount is where the hierarchy is mounted.
func (h *Hierarchy) Mount() string { return h.mount }
