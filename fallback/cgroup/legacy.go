package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// Legacy is systemd's own hierarchy of cgroup v1 (name=systemd), which holds the
// processes of its units where no cgroup v2 is mounted (cgroups(7)). It has no
// cgroup.events: that nobody is left is seen by the removal alone, which the kernel
// refuses while a cgroup has a process.
type Legacy struct{ h Hierarchy }

// FindLegacy finds the mount. The error is ErrNoHierarchy where there is none, or
// that of reading /proc/self/mountinfo.
func FindLegacy() (*Legacy, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot find systemd's cgroups: %w", err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if h, ok := parseLegacy(s.Text()); ok {
			return &Legacy{*h}, nil
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("cannot read /proc/self/mountinfo: %w", err)
	}
	return nil, ErrNoHierarchy
}

// parseLegacy takes one line of proc_pid_mountinfo(5).
func parseLegacy(line string) (*Hierarchy, bool) {
	before, after, ok := strings.Cut(line, " - ")
	fields := strings.Fields(after)
	if !ok || len(fields) < 3 || fields[0] != "cgroup" || !slices.Contains(strings.Split(fields[2], ","), "name=systemd") {
		return nil, false
	}
	return mountOf(before)
}

// Read looks at a unit's cgroup once. It is gone, or has the processes that are
// listed, or is unavailable: lists that have nobody in them, read one after the
// other, prove nothing.
func (l *Legacy) Read(cgroup string) verify.Cgroup {
	c := verify.Cgroup{Path: cgroup}
	err := l.see(cgroup)
	switch {
	case errors.Is(err, unix.ENOENT):
		return l.gone(cgroup)
	case err != nil:
		c.State, c.Err = verify.CgroupUnavailable, err.Error()
	default:
		if c.Members = members(&l.h, cgroup); len(c.Members) > 0 {
			c.State, c.Listed = verify.CgroupPopulated, true
			return c
		}
		c.State, c.Err = verify.CgroupUnavailable, cgroup+" lists no process, and is not removed"
	}
	return c
}

// gone is the reading of a cgroup that is not there, as of one of version 2.
func (l *Legacy) gone(cgroup string) verify.Cgroup {
	c := verify.Cgroup{Path: cgroup, State: verify.CgroupGone}
	for parent := filepath.Dir(cgroup); ; parent = filepath.Dir(parent) {
		err := l.see(parent)
		if err == nil {
			return c
		}
		if !errors.Is(err, unix.ENOENT) || parent == "/" {
			c.State, c.Err = verify.CgroupUnavailable, fmt.Sprintf("cannot see the parent of %s: %v", cgroup, err)
			return c
		}
	}
}

// see fails unless a cgroup is there.
func (l *Legacy) see(cgroup string) error {
	p, err := l.h.path(cgroup)
	if err != nil {
		return err
	}
	var s unix.Statfs_t
	if err := unix.Statfs(p, &s); err != nil {
		return fmt.Errorf("cannot see the cgroup %s: %w", cgroup, err)
	}
	if s.Type != unix.CGROUP_SUPER_MAGIC {
		return fmt.Errorf("cannot use %s as a cgroup: not on a cgroup file system", p)
	}
	return nil
}

// LastingPath is a file of the cgroup that is there until it is removed, and is
// never empty.
func (l *Legacy) LastingPath(cgroup string) (string, error) {
	p, err := l.h.path(cgroup)
	return filepath.Join(p, "notify_on_release"), err
}
