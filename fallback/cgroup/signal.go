package cgroup

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
)

// Sent says whom a signal reached.
type Sent struct {
	// Reached counts the members that it was sent to.
	Reached int
	// Denied are the members to whom we may send none.
	Denied []int
	// Unseen counts the members of pid namespaces that cannot be seen from
	// ours. They cannot be sent a signal, but cgroup.kill ends them.
	Unseen int
}

const (
	// passes bounds how often a unit is looked through for members that have
	// come since: a fork storm has always new ones.
	passes = 16
	// batch bounds the pidfds that are open at a time.
	batch = 64
)

// Signal sends a signal to every member of the unit and of the cgroups below
// it, once to each, also to those that come meanwhile: but for SIGKILL, not to
// the child of a member that has its signal and goes on, since it is most
// likely what that does about it, such as the rm of a shell's trap. A frozen
// member heeds it when it is thawed (ThawAll), a stopped one at SIGCONT;
// SIGKILL ends both.
//
// A pid is signalled through a pidfd that is opened before cgroup.procs is
// read again: what still stands there is the process that the pidfd holds, or
// the pidfd's has ended and the signal fails. So no other process can be hit.
//
// The error says that a part of the unit could not be looked into; the rest
// was signalled.
func (u *Unit) Signal(sig unix.Signal) (Sent, error) {
	var all Sent
	var err error
	done := map[int]bool{}
	for pass := range passes {
		spare := pass > 0 && sig != unix.SIGKILL
		unseen, before := 0, len(done)
		err = (&tree{}).walk(int(u.dir.Fd()), 0, func(dir int) error {
			n, err := all.sweep(dir, sig, done, spare)
			unseen += n
			return err
		})
		all.Unseen = unseen
		if len(done) == before {
			break
		}
	}
	if err != nil {
		return all, fmt.Errorf("cannot signal all of %s: %w", u.Path, err)
	}
	return all, nil
}

// sweep signals the members of one cgroup that are not done, and spares the
// children of those that are if it is to.
func (s *Sent) sweep(dir int, sig unix.Signal, done map[int]bool, spare bool) (unseen int, err error) {
	members, unseen, err := pids(dir)
	if err != nil {
		return unseen, err
	}
	members = slices.DeleteFunc(members, func(pid int) bool {
		if done[pid] || !spare {
			return done[pid]
		}
		child, err := proc.Root.Stat(pid)
		done[pid] = err == nil && done[child.PPID] // and with it, its own children
		return done[pid]
	})
	for some := range slices.Chunk(members, batch) {
		if err := s.send(dir, some, sig, done); err != nil {
			return unseen, err
		}
	}
	return unseen, nil
}

// send signals those pids of one cgroup that are still members when their
// pidfds are open.
func (s *Sent) send(dir int, some []int, sig unix.Signal, done map[int]bool) error {
	open := map[int]int{}
	defer func() {
		for _, fd := range open {
			unix.Close(fd)
		}
	}()
	for _, pid := range some {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot open a pidfd of pid %d: %w", pid, err)
		}
		open[pid] = fd
	}
	still, _, err := pids(dir)
	if err != nil {
		return err
	}
	for _, pid := range still {
		fd, ok := open[pid]
		if !ok || done[pid] {
			continue
		}
		switch err := unix.PidfdSendSignal(fd, sig, nil, 0); {
		case err == nil:
			s.Reached++
		case errors.Is(err, unix.EPERM):
			s.Denied = append(s.Denied, pid)
		case errors.Is(err, unix.ESRCH):
			continue // it ended; another one may have its number
		default:
			return fmt.Errorf("cannot signal pid %d: %w", pid, err)
		}
		done[pid] = true
	}
	return nil
}
