package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// Watch watches a recorded process, which need not be a child of ours. ended
// is closed when it has ended, or by stop, which is to be called in any case.
// It fails with unix.ESRCH when the process is gone; any other error says nothing of
// it.
func Watch(p unit.Process) (ended <-chan struct{}, stop func(), err error) {
	f, err := Open(p)
	if err != nil {
		return nil, nil, err
	}
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("cannot watch process %d: %w", p.PID, err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A pidfd becomes readable at the end of its process (pidfd_open(2)).
		_ = conn.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, 0)
			return n > 0 || err != nil && err != unix.EINTR
		})
	}()
	return done, func() { f.Close() }, nil
}

// Open opens a pidfd on a recorded process and makes sure that it is that one
// and no later one of its number. It fails with unix.ESRCH when the process is
// gone; any other error says nothing of it. The caller closes the file.
func Open(p unit.Process) (*os.File, error) {
	if p.PID <= 0 {
		return nil, fmt.Errorf("cannot open process %d: %w", p.PID, unix.ESRCH)
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open process %d: %w", p.PID, err)
	}
	// Set afterwards, as Linux knows PIDFD_NONBLOCK since 5.10 only.
	_ = unix.SetNonblock(fd, true)
	f := os.NewFile(uintptr(fd), "pidfd")
	started, err := StartTime(p.PID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && started != p.StartTime {
		err = unix.ESRCH
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot open process %d: %w", p.PID, err)
	}
	return f, nil
}
