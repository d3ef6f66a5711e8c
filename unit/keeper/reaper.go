package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// Reaper is a process between this one, the keeper, and a job's main process,
// and the way to what it sees. It is a fork of the keeper without an exec, a
// hundred KiB large, in a session of its own: the job's processes are its
// children or come to be when their parents end (PR_SET_CHILD_SUBREAPER), so
// it ends all of them when the keeper is gone, and knows when none is left.
//
// When it is killed itself, its children come to the keeper, and the Reaper
// goes on in the keeper's place. SIGTERM makes it end everything, whoever
// sends it.
//
// Its methods can be called at any time by several goroutines.
type Reaper struct {
	s         *Subreaper
	pid, main int
	control   int // a socket; closed once reaped is true
	// polled is the same socket for the runtime's poller; nil where a thread
	// waits for it.
	polled *os.File

	exited, childless chan struct{}

	mu      sync.Mutex
	woken   chan<- struct{}
	gate    *os.File
	kill    *os.File
	note    *os.File // Command.Record, for when the reaper is lost
	exit    Exit
	emptyAt time.Time
	refused map[int]struct{}
	reaped  bool // the reaper is no process any more
	lost    bool
	ending  bool
	wake    chan struct{} // tells adopt that ending became true
}

// Exit is how a main process ended.
type Exit struct {
	// Known is false when nobody could find out.
	Known bool
	// Status is its wait status.
	Status syscall.WaitStatus
	// At is when it was seen.
	At time.Time
	// CPU is the user and system time of it and the children that it has
	// waited for.
	CPU time.Duration
	// MaxRSS is the largest resident set of any of these in KiB.
	MaxRSS int64
}

// PID is the reaper's process. It ends only when the job has no process left,
// or was told to by SIGKILL.
func (r *Reaper) PID() int { return r.pid }

// MainPID is the main process. It is a child of the reaper's, and after the
// reaper's death of this process; it leads a session and a group of its own
// from its exec on.
func (r *Reaper) MainPID() int { return r.main }

// Exited is closed once the main process has ended.
func (r *Reaper) Exited() <-chan struct{} { return r.exited }

// Exit is how the main process ended. It is empty before Exited is closed.
func (r *Reaper) Exit() Exit {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exit
}

// Childless is closed once no process of the job is left: the kernel said so
// to the reaper (ECHILD). That is final, since only a descendant could have
// become a child again. It comes after Exited, and the reaper itself is gone
// too by then.
func (r *Reaper) Childless() <-chan struct{} { return r.childless }

// Wake has a word put into c, where it has room for one, whenever Exited or
// Childless is closed, and now if one was.
func (r *Reaper) Wake(c chan<- struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.woken = c
	select {
	case <-r.exited:
		r.alert()
	default:
	}
}

// alert is for who holds the lock.
func (r *Reaper) alert() {
	select {
	case r.woken <- struct{}{}:
	default: // nobody wants it, or it is there
	}
}

// ChildlessAt is when that was seen; zero before Childless is closed.
func (r *Reaper) ChildlessAt() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.emptyAt
}

// Lost is true when the reaper was killed while the job ran. This process
// then reaps and ends in its place, as long as it lives.
func (r *Reaper) Lost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// Refused lists, in their order, the processes that could not be signalled while
// everything was to end (EPERM): those of another user. At most 64 changes
// are told of.
func (r *Reaper) Refused() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]int, 0, len(r.refused))
	for pid := range r.refused {
		out = append(out, pid)
	}
	sort.Ints(out)
	return out
}

// Execute lets the main process execute its command, once. told, of at most 32 bytes,
// is the value of Command.Told; empty is an empty one. A *BecomeError says
// why it did not; the main process then ends, with a status that is not the
// command's. It fails with unix.EPIPE when the main process had ended before
// it could be told.
func (r *Reaper) Execute(told string) error {
	r.mu.Lock()
	gate := r.gate
	r.gate = nil
	r.mu.Unlock()
	if gate == nil {
		return errors.New("cannot execute the command: it was executed before, or everything has ended")
	}
	defer gate.Close()
	if len(told) > maxTold {
		return fmt.Errorf("cannot tell the command %d bytes: %w", len(told), unit.ErrUsage)
	}
	fd := int(gate.Fd())
	if err := again(func() error { return unix.Sendto(fd, append([]byte{'x'}, told...), unix.MSG_NOSIGNAL, nil) }); err != nil {
		return fmt.Errorf("cannot execute the command: %w", err)
	}
	var rec record
	for {
		switch n, err := readRecord(fd, &rec); {
		case err != nil:
			return fmt.Errorf("cannot execute the command: %w", err)
		case n == 0:
			return nil // closed by the exec
		case rec.kind == recordFailed:
			return &BecomeError{opName(rec.status), syscall.Errno(rec.errno)}
		}
	}
}

// End sends SIGKILL to every process of the job, again and again until none is
// left, and does not wait for that: Childless tells. It works before Execute
// too, and on a reaper that was stopped.
func (r *Reaper) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending {
		return
	}
	r.ending = true
	if r.gate != nil {
		r.gate.Close()
		r.gate = nil
	}
	close(r.wake)
	if !r.reaped {
		_ = r.tell(tellEnd)
		_ = unix.Kill(r.pid, unix.SIGCONT)
	}
}

// Stay makes of HangupEnd HangupStay: what is left of the job outlives this
// process. It fails when the reaper is gone, and so is what it kept, or is left
// to this process.
func (r *Reaper) Stay() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reaped || r.lost {
		return fmt.Errorf("cannot leave the job to its reaper: %w", os.ErrProcessDone)
	}
	if err := r.tell(tellStay); err != nil {
		return fmt.Errorf("cannot leave the job to its reaper: %w", err)
	}
	return nil
}

// Drain has the reaper read, and drop, the output of Command.ReadOut and ReadErr:
// for who has read it until now and does no more.
func (r *Reaper) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reaped {
		_ = r.tell(tellDrain) // it fails where the reaper has just ended
	}
}

// What a reaper can be told.
const (
	tellEnd   = 'e'
	tellStay  = 's'
	tellDrain = 'd'
)

// tell sends a word to the reaper, which is not reaped yet.
func (r *Reaper) tell(word byte) error {
	return unix.Sendto(r.control, []byte{word}, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, nil)
}

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

// again repeats what a signal has interrupted.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
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
