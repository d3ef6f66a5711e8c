package cgroup

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// unusable is the typed error of a hierarchy in which nothing can be done.
func (h *Hierarchy) unusable(why string) error {
	return &unit.IsolationError{
		Isolation: verify.IsolationCgroup,
		Refused:   []unit.Refusal{{What: "the cgroup2 file system at " + h.mount, Why: why}},
	}
}

// beneath opens a cgroup step by step below the mount, and follows no link on
// the way: the real path is the one that is asked for. It fails with
// fs.ErrNotExist when the cgroup is not there, and with *unit.IsolationError
// when the mount itself is no cgroup2 file system, since then absence would
// say nothing.
func (h *Hierarchy) beneath(cgroup string) (fd int, st unix.Stat_t, err error) {
	p, err := h.find(cgroup)
	if err != nil {
		return -1, st, err
	}
	defer unix.Close(p)
	fd, err = unix.Openat(p, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, st, fmt.Errorf("cannot open the cgroup %s: %w", cgroup, err)
	}
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return -1, st, fmt.Errorf("cannot open the cgroup %s: %w", cgroup, err)
	}
	return fd, st, nil
}

// find is beneath without the permission to read: it opens with O_PATH.
func (h *Hierarchy) find(cgroup string) (fd int, err error) {
	p, err := h.path(cgroup)
	if err != nil {
		return -1, err
	}
	top, err := unix.Open(h.mount, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, h.unusable(fmt.Sprintf("cannot open it: %v", err))
	}
	if !isCgroup2(top) {
		unix.Close(top)
		return -1, h.unusable("it is no cgroup2 file system")
	}
	if fd, err = descend(top, strings.TrimPrefix(p, h.mount)); err != nil {
		return -1, fmt.Errorf("cannot open the cgroup %s: %w", cgroup, err)
	}
	return fd, nil
}

// descend takes the steps of rel from the directory top, which it closes.
func descend(top int, rel string) (fd int, err error) {
	var from, to unix.Stat_t
	if err := unix.Fstat(top, &from); err != nil {
		unix.Close(top)
		return -1, err
	}
	for step := range strings.SplitSeq(rel, "/") {
		if step == "" {
			continue
		}
		next, err := unix.Openat(top, step, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(top)
		if err != nil {
			return -1, err
		}
		top = next
	}
	// Something else may be mounted over a cgroup.
	if err := unix.Fstat(top, &to); err != nil || to.Dev != from.Dev || !isCgroup2(top) {
		unix.Close(top)
		return -1, errors.New("it is not on the cgroup2 file system")
	}
	return top, nil
}

// openFile opens a file or directory of a cgroup of ours. Where a job took our
// own permissions away they are given back, which its owner can always do.
func openFile(dir int, name string, flags int) (int, error) {
	fd, err := openHere(dir, name, flags)
	if !errors.Is(err, unix.EACCES) {
		return fd, err
	}
	if unix.Fchmod(dir, 0o700) != nil {
		return -1, err
	}
	if fd, again := openHere(dir, name, flags); !errors.Is(again, unix.EACCES) {
		return fd, again
	}
	if unix.Fchmodat(dir, name, 0o700, 0) != nil {
		return -1, err
	}
	return openHere(dir, name, flags)
}

// openHere opens what stands in a directory itself: not what a link there leads
// to, and not what a job of root's may have mounted over it, for what is walked
// is killed and removed. Before openat2 (Linux 5.6, or where a filter of system
// calls does not know it) only another file system is told apart.
func openHere(dir int, name string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS})
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fd, err
	}
	if fd, err = unix.Openat(dir, name, flags, 0); err == nil && !isCgroup2(fd) {
		unix.Close(fd)
		return -1, unix.EXDEV
	}
	return fd, err
}
