package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// endLater is the signal by which a reaper is asked for an end at a later time,
// with the time in milliseconds as its value (sigqueue(3)). It is a real-time
// one, of which none is lost while another is pending.
const endLater = unix.Signal(43)

// valueAt is where struct signalfd_siginfo has the integer of a signal
// (signalfd(2)).
const valueAt = 44

// siCodeQueue is SI_QUEUE: the signal was sent by a process, with a value.
const siCodeQueue = -1

// queued is the kernel's siginfo_t of a signal that is sent with a value.
type queued struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	value                 int64
	_                     [96]byte
}

// EndLater asks the reaper of a job, of any keeper and also of none, to end
// everything once after has passed: whoever asks need not stay. What ends before
// is not touched; of several times the earliest counts. after is at most 24 days,
// and what is longer is that. The error is unix.ESRCH when the reaper is gone, and
// unix.EPERM when it is another user's.
//
// Reapers of jobs with Command.Deaf do not hear it.
func (p Process) EndLater(after time.Duration) error {
	ms := min(max(after, 0).Milliseconds(), math.MaxInt32)
	info := queued{signo: int32(endLater), code: siCodeQueue, pid: int32(os.Getpid()), uid: uint32(os.Getuid()), value: ms}
	return p.send(endLater, &info)
}

// send sends a signal to the process, and never to a later one of its number.
// info is nil for one without a value.
func (p Process) send(sig unix.Signal, info *queued) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	missing := errors.Is(err, unix.ENOSYS) // Linux 5.3 has it
	switch {
	case err == nil:
		defer unix.Close(fd)
	case errors.Is(err, unix.EINVAL):
		err = unix.ESRCH // a thread has its number
		fallthrough
	case !missing:
		return fmt.Errorf("cannot signal process %d: %w", p.PID, err)
	}
	// The descriptor holds whatever has the number now. If that is the one, it
	// stays so.
	start, err := StartTime(p.PID)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), err == nil && start != p.StartTime:
		err = unix.ESRCH
	case err != nil:
		return err
	case missing && info == nil:
		err = unix.Kill(p.PID, sig)
	case missing:
		if _, _, errno := syscall.Syscall(unix.SYS_RT_SIGQUEUEINFO, uintptr(p.PID), uintptr(sig), uintptr(unsafe.Pointer(info))); errno != 0 {
			err = errno
		}
	default:
		err = unix.PidfdSendSignal(fd, sig, (*unix.Siginfo)(unsafe.Pointer(info)), 0)
	}
	if err != nil {
		return fmt.Errorf("cannot signal process %d: %w", p.PID, err)
	}
	return nil
}

// fallDue takes the time of a signal, whose siginfo is at a place in o.buf. The
// low bytes come first on both machines.
//
//go:nosplit
//go:norace
func fallDue(o *orders, at uintptr) {
	ms := int64(0)
	for i := uintptr(4); i > 0; i-- {
		ms = ms<<8 | int64(o.buf[(at+valueAt+i-1)&(4096-1)])
	}
	if due := uptime(o) + ms*1e6; o.due == 0 || due < o.due {
		o.due = due
	}
}

// uptime is CLOCK_MONOTONIC in nanoseconds.
//
//go:nosplit
//go:norace
func uptime(o *orders) int64 {
	syscall.RawSyscall6(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&o.now)), 0, 0, 0, 0)
	return o.now.Sec*1e9 + o.now.Nsec
}
