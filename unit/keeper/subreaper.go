package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Subreaper is this process as the keeper of jobs. It makes reapers, and when
// one is killed, the job's processes come to this process and it reaps and
// ends them itself. There can be one in a process.
//
// This process's other children stay their makers' to wait for: what is taken
// for a job's is a child of another session that was not made by this package.
// Where several reapers are lost at a time their processes cannot be told apart:
// each of the jobs counts as childless when all are, and the end of one is the
// end of all.
type Subreaper struct {
	// session is ours. A job's processes can never have it, as its reaper
	// has left it.
	session int

	mu    sync.Mutex
	mains map[int]*Reaper
	// maps is what is mapped of a file or the kernel, which stays where it is; empty
	// before the first fork.
	maps []byte
}

// NewSubreaper makes this process one (PR_SET_CHILD_SUBREAPER, Linux 3.4).
func NewSubreaper() (*Subreaper, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot become a subreaper: %w", err)
	}
	session, err := unix.Getsid(0)
	if err != nil {
		return nil, fmt.Errorf("cannot read this process's session: %w", err)
	}
	return &Subreaper{session: session, mains: map[int]*Reaper{}}, nil
}

// Fork makes a reaper and the main process of a command. The main process is
// in its cgroup and waits for Execute; nothing of the command exists yet. In
// a frozen cgroup it waits until that is thawed.
//
// A *JoinError says that the main process could not be put into its cgroup, or
// the reaper into the keeper's; a *BecomeError that the command cannot be one
// at all. Any other error comes of the kernel: no process, no memory, no
// descriptor. Nothing is left then.
func (s *Subreaper) Fork(c *Command) (*Reaper, error) {
	o, mem, err := c.order()
	if err != nil {
		return nil, err
	}
	defer unmap(mem)
	null := -1
	if c.Stdin == nil || c.Stdout == nil || c.Stderr == nil {
		null, err = unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("cannot open %s: %w", os.DevNull, err)
		}
		defer unix.Close(null)
	}
	kill, err := another(c.CgroupKill)
	if err != nil {
		return nil, err
	}
	note, err := another(c.Record)
	if err != nil {
		closeAll(kill)
		return nil, err
	}
	control, gate, pid, err := s.fork(c, o, null)
	if err != nil {
		closeAll(kill, note)
		return nil, err
	}
	r := &Reaper{s: s, pid: pid, kill: kill, note: note, exited: make(chan struct{}), childless: make(chan struct{}),
		wake: make(chan struct{}), refused: map[int]struct{}{}}
	if err := r.await(control, gate); err != nil {
		unix.Close(gate) // a main process that is there without our knowing sees it and ends
		unix.Close(control)
		s.forget(r)
		if r.lost {
			go func() { r.adopt(); s.release(r) }()
		} else {
			s.release(r)
		}
		closeAll(kill, note)
		return nil, err
	}
	r.gate = os.NewFile(uintptr(gate), "gate")
	r.control = control
	s.mu.Lock()
	s.mains[r.main] = r
	many := len(s.mains) > fewReapers
	s.mu.Unlock()
	if many {
		r.share()
	}
	go r.follow()
	return r, nil
}

// another is a descriptor of our own for the same file; nil for none.
func another(f *os.File) (*os.File, error) {
	if f == nil {
		return nil, nil
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("cannot keep %s: %w", f.Name(), err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close() // of a nil file too
	}
}

// fork makes the reaper; control and gate are our ends of its sockets.
func (s *Subreaper) fork(c *Command, o *orders, null int) (control, gate, pid int, err error) {
	controls, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("cannot make the reaper's socket: %w", err)
	}
	defer unix.Close(controls[1])
	gates, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		unix.Close(controls[0])
		return 0, 0, 0, fmt.Errorf("cannot make the main process's socket: %w", err)
	}
	defer unix.Close(gates[1])
	o.setFiles(c, controls[1], gates[1], null)

	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.maps) == 0 {
		s.maps = bytes.Clone(readMaps(make([]byte, maxMaps)))
	}
	err = own.add(func() (int, error) {
		pid, err = forkReaper(o, s.maps)
		return pid, err
	})
	c.keepAlive()
	if err != nil {
		unix.Close(controls[0])
		unix.Close(gates[0])
		return 0, 0, 0, err
	}
	return controls[0], gates[0], pid, nil
}

// await hears whether the main process is there, of the first to say so: it
// itself or its reaper.
func (r *Reaper) await(control, gate int) error {
	var rec record
	poll := []unix.PollFd{{Fd: int32(control), Events: unix.POLLIN}, {Fd: int32(gate), Events: unix.POLLIN}}
	if err := again(func() error { _, err := unix.Poll(poll, -1); return err }); err != nil {
		return fmt.Errorf("cannot hear the reaper: %w", err)
	}
	if poll[1].Revents&unix.POLLIN != 0 {
		if n, err := readRecord(gate, &rec); err == nil && n > 0 && rec.kind == recordBorn {
			r.main = int(rec.pid)
			return nil
		}
	}
	n, err := readRecord(control, &rec)
	switch {
	case err != nil:
		return fmt.Errorf("cannot hear the reaper: %w", err)
	case n == 0:
		r.lost = true
		return errors.New("cannot start the main process: its reaper was killed")
	case rec.kind == recordBorn:
		r.main = int(rec.pid)
		return nil
	}
	errno := syscall.Errno(rec.errno)
	switch rec.status {
	case opKeeper, opClone3, opJoin:
		return &JoinError{opName(rec.status), errno}
	case opBirth:
		return &JoinError{opName(rec.status), 0}
	}
	return fmt.Errorf("cannot start the main process: %s: %w", opName(rec.status), errno)
}

// forget reaps a reaper that has closed its socket, which it does only by
// ending.
func (s *Subreaper) forget(r *Reaper) {
	_ = own.reap(r.pid, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reaped = true
		_, err := unix.Wait4(r.pid, nil, 0, nil)
		return err
	})
}

// release forgets the main process.
func (s *Subreaper) release(r *Reaper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mains, r.main)
}
