package cgroup

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Freeze stops every member of the unit where it stands, and waits until the
// kernel says so: what is in uninterruptible sleep freezes only after it. When
// the context ends first, the unit is thawed again and the error is an
// *OccupiedError with the members. It fails with fs.ErrNotExist before Linux
// 5.2.
func (u *Unit) Freeze(ctx context.Context) error {
	if err := u.setFrozen("1"); err != nil {
		return err
	}
	if err := u.await(ctx, "frozen", true); err != nil {
		_ = u.setFrozen("0")
		return fmt.Errorf("cannot freeze the cgroup %s: %w", u.Path, &OccupiedError{Path: u.Path, Members: u.members(), Err: err})
	}
	return nil
}

// Thaw lets the members go on, but for those that the job froze itself in
// cgroups that it made, and waits until the kernel says so. A frozen ancestor
// keeps the unit frozen: then the error is the context's.
func (u *Unit) Thaw(ctx context.Context) error {
	if err := u.setFrozen("0"); err != nil {
		return err
	}
	return u.await(ctx, "frozen", false)
}

// ThawAll lets every member go on, also those in cgroups that the job made and
// froze, so that they heed a signal. It does not wait. What cannot be thawed
// hides nothing else; the first error is returned.
func (u *Unit) ThawAll() error {
	first := u.setFrozen("0")
	err := (&tree{}).walk(int(u.dir.Fd()), 0, func(dir int) error {
		fd, err := openFile(dir, "cgroup.freeze", unix.O_WRONLY)
		if err == nil {
			_, err = unix.Write(fd, []byte("0"))
			unix.Close(fd)
		}
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
			return nil // an old kernel, or it was removed
		}
		return err
	})
	if first == nil && err != nil {
		first = fmt.Errorf("cannot thaw all of %s: %w", u.Path, err)
	}
	return first
}

// setFrozen writes cgroup.freeze. There is nothing to do in a unit that is gone.
func (u *Unit) setFrozen(value string) error {
	if u.freezer == nil {
		return fmt.Errorf("cannot write cgroup.freeze of %s: it is not there or not ours: %w", u.Path, unix.ENOENT)
	}
	_, err := unix.Pwrite(int(u.freezer.Fd()), []byte(value), 0)
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("cannot write cgroup.freeze of %s: %w", u.Path, err)
	}
	return nil
}
