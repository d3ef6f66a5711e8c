package keeper

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Between two looks at what came to us.
const (
	adoptTick     = 10 * time.Millisecond
	adoptLongTick = 100 * time.Millisecond
)

// adopt does a lost reaper's work until nothing of the job is left.
func (r *Reaper) adopt() {
	wake, ending := r.wake, false
	for quiet := 0; ; quiet++ {
		r.mu.Lock()
		if r.ending && !ending {
			quiet = 0
		}
		ending = r.ending
		r.mu.Unlock()
		if ending && r.kill != nil && quiet%quietTicks == 0 {
			_, _ = r.kill.WriteString("1")
		}
		left, progress := r.s.sweep(r, ending)
		if !left {
			return
		}
		if progress {
			quiet = 0
		}
		tick := adoptTick
		if quiet > quietTicks {
			tick = adoptLongTick
		}
		select {
		case <-wake:
			wake = nil
		case <-time.After(tick):
		}
	}
}

// Adopted lists the processes that came to this one from reapers that were
// killed, of this job and of others, whose reapers are among them never, as
// Descendants does.
func (r *Reaper) Adopted() []Process {
	found, _ := DescendantsBy(os.Getpid(), func(child int) bool {
		own.mu.Lock()
		defer own.mu.Unlock()
		return r.s.adopted(child)
	})
	return found
}

// sweep reaps what has ended of the lost jobs, and with ending kills what has
// not. left is false when nothing is.
func (s *Subreaper) sweep(r *Reaper, ending bool) (left, progress bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own.mu.Lock()
	defer own.mu.Unlock()
	// Twice: a child may go from one of our threads to another while the
	// threads are looked at one after the other, when its own has ended.
	for range 2 {
		left = false
		children, err := childrenOf(os.Getpid())
		if err != nil {
			return !noChildren(), false
		}
		for _, pid := range children {
			if !s.adopted(pid) {
				continue
			}
			left = true
			var status unix.WaitStatus
			var usage unix.Rusage
			var reaped int
			err := again(func() (err error) {
				reaped, err = unix.Wait4(pid, &status, unix.WNOHANG|unix.WALL, &usage)
				return err
			})
			switch {
			case err == nil && reaped == pid:
				progress = true
				if main := s.mains[pid]; main != nil {
					main.setExit(Exit{true, syscall.WaitStatus(status), time.Now(),
						time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), usage.Maxrss})
				}
			case err == nil && ending:
				// Ours and unreaped, so it is no other process.
				if err := unix.Kill(pid, unix.SIGKILL); err == unix.EPERM {
					r.refuse(pid)
				}
			}
		}
		if left {
			return true, progress
		}
	}
	return false, progress
}

// noChildren is the kernel's own word for it.
func noChildren() bool {
	err := again(func() error {
		return unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	})
	return errors.Is(err, unix.ECHILD)
}

// adopted is true for a child that came to us from a lost reaper, for who holds the
// lock of own.
func (s *Subreaper) adopted(pid int) bool {
	if own.has(pid) {
		return false
	}
	// Not by /proc, which may hide a process of another user (hidepid=), and needs a
	// descriptor: what cannot be seen there is no less alive.
	session, err := unix.Getsid(pid)
	return err != unix.ESRCH && (err != nil || session != s.session)
}

// isChild is the kernel's word on a child of this process, that has ended or not.
func isChild(pid int) bool {
	return again(func() error {
		return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
	}) == nil
}
