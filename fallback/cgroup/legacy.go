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
// cgroup.events. That nobody is left is seen by the removal, which the kernel refuses
// while a cgroup has a process, and by the list of a cgroup that has none below it,
// which the kernel makes at once: lists of several are no picture of one moment.
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

// Read looks at a unit's cgroup once.
func (l *Legacy) Read(cgroup string) verify.Cgroup {
	c := verify.Cgroup{Path: cgroup, Listed: true}
	err := l.see(cgroup)
	switch {
	case errors.Is(err, unix.ENOENT):
		return l.gone(cgroup)
	case err != nil:
		c.State, c.Err = verify.CgroupUnavailable, err.Error()
		return c
	}
	before := l.single(cgroup)
	nobody := l.listsNobody(cgroup)
	switch c.Members = members(&l.h, cgroup); {
	case len(c.Members) > 0:
		c.State = verify.CgroupPopulated
	case before && nobody && l.single(cgroup) && seesAll():
		c.State = verify.CgroupEmpty
	default:
		c.State, c.Err = verify.CgroupUnavailable, cgroup+" lists no process, which is no proof, and is not removed"
	}
	return c
}

// single is true for a cgroup that is seen to have none below it.
func (l *Legacy) single(cgroup string) bool {
	p, err := l.h.path(cgroup)
	if err != nil {
		return false
	}
	entries, err := os.ReadDir(p)
	return err == nil && !slices.ContainsFunc(entries, os.DirEntry.IsDir)
}

// listsNobody is true when the kernel's list of a cgroup is read, and empty.
func (l *Legacy) listsNobody(cgroup string) bool {
	p, err := l.h.path(cgroup)
	if err != nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join(p, "cgroup.procs"))
	return err == nil && len(b) == 0
}

// initialPIDs is the inode of the initial pid namespace (include/linux/proc_ns.h,
// PROC_PID_INIT_INO).
const initialPIDs = 0xEFFFFFFC

// seesAll is true in the initial pid namespace: a list leaves out who is in one that
// is not ours or below it.
func seesAll() bool {
	var st unix.Stat_t
	return unix.Stat("/proc/self/ns/pid", &st) == nil && st.Ino == initialPIDs
}

// gone is the reading of a cgroup that is not there, as of one of version 2.
func (l *Legacy) gone(cgroup string) verify.Cgroup {
	c := verify.Cgroup{Path: cgroup, Listed: true, State: verify.CgroupGone}
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
