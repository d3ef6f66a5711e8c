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
