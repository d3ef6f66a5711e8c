package terminal

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errEnd says that the input has ended.
var errEnd = errors.New("the input has ended")

// typed carries keys until a Pause, the end of the input or the keys that leave.
func (r *Relay) typed() {
	select {
	case <-r.left:
		return
	default:
	}
	if r.cfg.In == nil || !r.pass() {
		return
	}
	err := control(r.cfg.In, func(in int) error {
		return control(r.stop[0], func(stop int) error { return r.read(in, stop) })
	})
	switch {
	case err == nil:
	case r.keys:
		_ = r.cfg.End.Close() // the user's terminal is no more
	default:
		r.rest = append(r.rest, r.cfg.Keys.Held()...)
		r.pass()
		r.cfg.End.EndInput(r.within, func(pause time.Duration) bool { return readable(r.stop[0], pause) })
	}
}

// read reads the input at in until there is something to read at stop. The error
// says that the input has ended.
func (r *Relay) read(in, stop int) error {
	buf := make([]byte, 4<<10)
	poll := []unix.PollFd{{Fd: int32(in), Events: unix.POLLIN}, {Fd: int32(stop), Events: unix.POLLIN}}
	for {
		wait := -1
		if due := r.cfg.Keys.due(time.Now()); due >= 0 {
			wait = int(due.Milliseconds())
		}
		if _, err := unix.Poll(poll, wait); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if poll[1].Revents != 0 {
			return nil
		}
		if poll[0].Revents == 0 {
			r.rest = append(r.rest, r.cfg.Keys.Late(time.Now())...)
			if !r.pass() {
				return nil
			}
			continue
		}
		n, err := unix.Read(in, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return os.NewSyscallError("read", err)
		case n == 0:
			return errEnd
		}
		pass, left := r.cfg.Keys.Find(buf[:n], time.Now())
		r.rest = append(r.rest, pass...)
		passed := r.pass()
		if left {
			close(r.left)
		}
		if left || !passed {
			return nil
		}
	}
}

// pass gives the job the keys that it is to have. It is false when a Pause came
// first, or when nobody has the slave any more.
func (r *Relay) pass() bool {
	for len(r.rest) > 0 {
		n, err := r.cfg.End.Write(r.rest)
		if n > 0 {
			r.within = r.rest[n-1] != '\n'
		}
		r.rest = r.rest[n:]
		if err != nil {
			return false
		}
	}
	return true
}

// readable waits until there is something to read, at most for a time.
func readable(f *os.File, most time.Duration) bool {
	ready := true
	_ = control(f, func(fd int) error { // what is closed has an end to read
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, int(most.Milliseconds()))
		if err == nil || errors.Is(err, unix.EINTR) {
			ready = n > 0
		}
		return err
	})
	return ready
}

// writable waits until something can be written.
func writable(fd int) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
