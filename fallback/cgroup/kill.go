package cgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Way is how the members of a unit were ended.
type Way string

const (
	// WayNone says that there was no member.
	WayNone Way = ""
	// WayKill is cgroup.kill (Linux 5.14).
	WayKill Way = "cgroup.kill"
	// WaySignals is SIGKILL to each member of the frozen unit.
	WaySignals Way = "SIGKILL to each member of the frozen cgroup"
)

const (
	// repeatKill is how long a kill is given before it is sent again, to
	// those that were put into the unit from outside meanwhile.
	repeatKill = time.Second
	// freezeTime bounds the wait for a freeze that only helps a kill.
	freezeTime = 500 * time.Millisecond
)

// Kill ends every member with SIGKILL, whatever its user, whether it is
// frozen, stopped or forking, and waits until none is left. When the context
// ends first, the error is an *OccupiedError that says who is left.
//
// Nothing can be started in the unit afterwards: some kernels kill at birth
// what is cloned into a cgroup that was killed before.
func (u *Unit) Kill(ctx context.Context) (Way, error) {
	if populated, err := u.event("populated"); err == nil && !populated || errors.Is(err, unix.ENODEV) {
		return WayNone, nil
	}
	way := WayKill
	var sent Sent
	for {
		if way == WayKill {
			err := u.killFile()
			switch {
			case errors.Is(err, unix.ENODEV):
				return way, nil
			case err != nil:
				way = WaySignals // before 5.14; or not for us to write
			}
		}
		var err error
		if way == WaySignals {
			sent, err = u.killEach(ctx)
		}
		if err == nil {
			turn, cancel := context.WithTimeout(ctx, repeatKill)
			err = u.Wait(turn)
			cancel()
			if err == nil {
				return way, nil
			}
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		} else if errors.Is(err, context.DeadlineExceeded) {
			continue
		}
		return way, &OccupiedError{Path: u.Path, Members: u.members(), Denied: sent.Denied, Unseen: sent.Unseen, Err: err}
	}
}

func (u *Unit) killFile() error {
	if u.kill == nil {
		return unix.ENOENT
	}
	_, err := unix.Pwrite(int(u.kill.Fd()), []byte("1"), 0)
	return err
}

// killEach freezes the unit, so that nothing is born in it meanwhile, and
// sends SIGKILL to each member, which ends frozen and stopped ones too. What
// does not freeze in time can still fork: Kill repeats until all are gone.
func (u *Unit) killEach(ctx context.Context) (Sent, error) {
	if u.setFrozen("1") == nil {
		defer func() { _ = u.setFrozen("0") }()
		turn, cancel := context.WithTimeout(ctx, freezeTime)
		_ = u.await(turn, "frozen", true)
		cancel()
	}
	sent, err := u.Signal(unix.SIGKILL)
	if err != nil && sent.Reached > 0 {
		err = nil // the next turn may see more
	}
	return sent, err
}

// retry is how long the first repetition of an rmdir waits; it doubles up to
// retryMost.
const (
	retry     = time.Millisecond
	retryMost = 64 * time.Millisecond
)

// Remove removes the unit's cgroup, with those that the job made in it, as
// soon as no process is left in it: it waits for that. nil says that the
// cgroup is gone, which is proof that it was empty. When the context ends
// first, the error is an *OccupiedError. Another cgroup that has its name by
// now is left alone.
func (u *Unit) Remove(ctx context.Context) error {
	for pause := retry; ; pause = min(2*pause, retryMost) {
		err := u.Wait(ctx)
		if err == nil {
			err = u.rmdir()
		}
		switch {
		case err == nil:
			u.count(false)
			u.parent.swept(int(u.holder.Fd()))
			return nil
		case errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOTEMPTY):
			// The last of a kill takes its time, and something outside of
			// the unit can make cgroups in it.
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		if cause := context.Cause(ctx); cause != nil {
			return &OccupiedError{Path: u.Path, Members: u.members(), Err: cause}
		}
		return fmt.Errorf("cannot remove the cgroup %s: %w", u.Path, err)
	}
}

// rmdir removes the unit's cgroup and those below it, the deepest first.
func (u *Unit) rmdir() error {
	if gone, err := u.gone(); gone || err != nil {
		return err
	}
	// Most jobs make no cgroups: the kernel refuses where there are some.
	err := unix.Unlinkat(int(u.holder.Fd()), u.name, unix.AT_REMOVEDIR)
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENOTEMPTY) {
		if err := (&tree{}).remove(int(u.dir.Fd()), 0); err != nil {
			return err
		}
		err = unix.Unlinkat(int(u.holder.Fd()), u.name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		if gone, _ := u.gone(); gone {
			return nil
		}
	}
	return err
}

// gone is true when the unit's cgroup was removed: nothing, or another one,
// has its name, which cannot be changed (the kernel renames no cgroup).
func (u *Unit) gone() (bool, error) {
	var st unix.Stat_t
	switch err := unix.Fstatat(int(u.holder.Fd()), u.name, &st, unix.AT_SYMLINK_NOFOLLOW); {
	case errors.Is(err, unix.ENOENT):
		return true, nil
	case err != nil:
		return false, err
	}
	return st.Ino != u.Inode, nil
}
