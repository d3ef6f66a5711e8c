package keeper

import (
	"errors"
	"fmt"
	"os"
	"sort"
	"sync"
	"syscall"
	"time"

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

// again repeats what a signal has interrupted.
func again(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
