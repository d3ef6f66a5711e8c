package keeper

import (
	"errors"
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// follow hears the reaper until it is gone, and goes on in its place if it
// was killed.
func (r *Reaper) follow() {
	var rec record
	childless := false
	for {
		n, err := r.hear(&rec)
		if err != nil || n == 0 {
			break
		}
		switch rec.kind {
		case recordExit:
			r.setExit(Exit{true, syscall.WaitStatus(rec.status), time.Unix(0, rec.at), time.Duration(rec.cpu), rec.rss})
		case recordRefused:
			r.refuse(int(rec.pid))
		case recordChildless:
			childless = true
			r.mu.Lock()
			r.emptyAt = time.Unix(0, rec.at)
			r.mu.Unlock()
		}
	}
	// Its children become ours before it can be waited for.
	r.s.forget(r)
	if !childless {
		r.mu.Lock()
		r.lost = true
		r.mu.Unlock()
		r.adopt()
	}
	r.finish()
}

// fewReapers is how many a process can have before it waits for further ones by
// the poller of the runtime.
const fewReapers = 4

// share leaves the wait for the reaper to the poller of the runtime.
func (r *Reaper) share() {
	if unix.SetNonblock(r.control, true) == nil {
		r.polled = os.NewFile(uintptr(r.control), "reaper")
	}
}

// hear reads the reaper's next record. A thread waits for it, as one would for
// a child: to be woken by the poller takes longer. Of many reapers each would
// have a thread.
func (r *Reaper) hear(rec *record) (n int, err error) {
	if r.polled == nil {
		return readRecord(r.control, rec)
	}
	raw, err := r.polled.SyscallConn()
	if err != nil {
		return 0, err
	}
	var rerr error
	err = raw.Read(func(fd uintptr) bool {
		n, rerr = readRecord(int(fd), rec)
		return !errors.Is(rerr, unix.EAGAIN)
	})
	if err == nil {
		err = rerr
	}
	return n, err
}

func (r *Reaper) finish() {
	r.s.release(r)
	r.setExit(Exit{})
	r.mu.Lock()
	if r.emptyAt.IsZero() {
		r.emptyAt = time.Now()
		r.noteChildless()
	}
	if r.gate != nil {
		r.gate.Close()
		r.gate = nil
	}
	r.mu.Unlock()
	if r.polled != nil {
		r.polled.Close()
	} else {
		unix.Close(r.control)
	}
	closeAll(r.kill, r.note)
	close(r.childless)
	r.mu.Lock()
	r.alert()
	r.mu.Unlock()
}

// setExit keeps the first exit that it is told of: a main process that is
// reported and not yet reaped when its reaper dies is seen twice.
func (r *Reaper) setExit(e Exit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.exited:
	default:
		r.exit = e
		if r.lost && e.Known {
			r.noteExit()
		}
		close(r.exited)
		r.alert()
	}
}

func (r *Reaper) refuse(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[pid] = struct{}{}
}

// readRecord reads one record of a socket; 0 is its end.
func readRecord(fd int, rec *record) (n int, err error) {
	buf := (*[recordSize]byte)(unsafe.Pointer(rec))[:]
	for {
		n, err = unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECONNRESET):
			// Said once, before all that was sent and is still to be read: the
			// other end closed with something of ours unread.
		case err == nil && n != 0 && n != len(buf):
			return n, io.ErrUnexpectedEOF
		default:
			return n, err
		}
	}
}
