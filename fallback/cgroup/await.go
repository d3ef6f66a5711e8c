package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// OccupiedError says that a unit was not empty, or that something else which
// was waited for had not come, when the wait ended.
type OccupiedError struct {
	// Path is the cgroup below the cgroup root.
	Path string
	// Members are the processes that were seen in it; some may be hidden.
	Members []verify.Member
	// Denied and Unseen are as in Sent, for what was sent last.
	Denied []int
	Unseen int
	// Err is why the wait ended: that of the context, or of a system call.
	Err error
}

func (e *OccupiedError) Error() string {
	s := fmt.Sprintf("cannot see the cgroup %s empty: %v", e.Path, e.Err)
	if len(e.Members) > 0 {
		m := e.Members[0]
		s += fmt.Sprintf("; members are left: %d, such as pid %d (%s), state %s", len(e.Members), m.PID, m.Command, m.State)
	}
	if len(e.Denied) > 0 {
		s += fmt.Sprintf("; not permitted to signal pid %s", strings.Trim(fmt.Sprint(e.Denied), "[]"))
	}
	if e.Unseen > 0 {
		s += fmt.Sprintf("; in other pid namespaces: %d", e.Unseen)
	}
	return s
}

func (e *OccupiedError) Unwrap() error { return e.Err }

// recheckMillis bounds one poll(2). The kernel wakes it at every change, but
// not at the removal of the cgroup by somebody else.
const recheckMillis = 1000

// Wait waits until no process is left in the unit: until cgroup.events says
// "populated 0" or the cgroup is gone. The error is the context's.
func (u *Unit) Wait(ctx context.Context) error {
	return u.await(ctx, "populated", false)
}

// await waits until a line of cgroup.events has a value, or until the cgroup
// is gone, by poll(2), which the kernel wakes with POLLPRI (cgroup-v2.rst,
// "(Un)populated Notification").
func (u *Unit) await(ctx context.Context, key string, want bool) error {
	if got, err := u.event(key); err == nil && got == want || errors.Is(err, unix.ENODEV) {
		return nil
	}
	// What one reader has read, poll does not report to another one of the
	// same open file: each has to have its own.
	events, err := openFile(int(u.dir.Fd()), "cgroup.events", unix.O_RDONLY)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		return nil
	case err != nil:
		return fmt.Errorf("cannot open cgroup.events of %s: %w", u.Path, err)
	}
	defer unix.Close(events)
	wake, err := newWaker(ctx)
	if err != nil {
		return err
	}
	defer wake.Close()
	for {
		s, err := rewind(events)
		if errors.Is(err, unix.ENODEV) {
			return nil
		}
		var got bool
		if err == nil {
			got, err = parseEvent(s, key)
		}
		if err != nil {
			return fmt.Errorf("cannot read cgroup.events of %s: %w", u.Path, err)
		}
		if got == want {
			return nil
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		fds := []unix.PollFd{{Fd: int32(events), Events: unix.POLLPRI}, {Fd: int32(wake.fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, recheckMillis); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("cannot wait for cgroup.events of %s: %w", u.Path, err)
		}
	}
}

// waker makes a descriptor readable when a context ends.
type waker struct {
	f    *os.File
	stop func() bool
	done chan struct{}
}

func newWaker(ctx context.Context) (*waker, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make an eventfd: %w", err)
	}
	w := &waker{f: os.NewFile(uintptr(fd), "eventfd"), done: make(chan struct{})}
	w.stop = context.AfterFunc(ctx, func() {
		defer close(w.done)
		_, _ = w.f.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	return w, nil
}

func (w *waker) fd() int { return int(w.f.Fd()) }

// Close waits for a wake-up that is under way: its descriptor could be
// another's the next moment.
func (w *waker) Close() {
	if !w.stop() {
		<-w.done
	}
	w.f.Close()
}
