package capture

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// largePipe is the size of the pipe of a stream with much output. More
	// takes a privilege (fcntl(2), F_SETPIPE_SZ).
	largePipe = 1 << 20
	// muchOutput is how much a stream has to bring before its pipe grows: the
	// pages of all pipes of a user are limited (pipe(7), pipe-user-pages-soft),
	// and with many jobs most of them say little.
	muchOutput = 1 << 20
	// touchAfter is how far apart the touches of a busy file are.
	touchAfter = 100 * time.Millisecond
)

// source reads one stream and puts it on its shelf.
type source struct {
	stream Stream
	dir    int
	in     *os.File
	raw    syscall.RawConn
	// null is /dev/null; -1 where there is none.
	null     int
	shelf    *shelf
	exceeded func() // nil when nobody is to be told
	// rest is called when the stream has had restAt bytes, and every restBytes from
	// then on; nil is not.
	rest              func()
	restBytes, restAt int64

	// copying is true where splice(2) cannot be used; buf is nil until it is
	// needed.
	copying  bool
	buf      []byte
	pipeSize int64 // 0: it is no pipe
	grown    bool
	// skipTo is the offset up to which bytes are being skipped, skipFrom the one
	// from which on they may be skipped again.
	skipTo, skipFrom int64
	// silent is true on a kernel where splice(2) wakes nobody who watches the
	// file, and untouched when bytes went there of which nobody knows.
	silent, untouched bool
	touchedAt         time.Time
	// armed is the deadline that is set.
	armed time.Time

	mu     sync.Mutex
	giveUp time.Time // zero: never
	known  StreamStats
}

// newSource makes descriptors of its own. Nothing is on disk yet.
func newSource(dir, from *os.File, name Stream) (*source, error) {
	d, err := duplicate(dir)
	if err != nil {
		return nil, err
	}
	if err := absent(d, name); err != nil {
		unix.Close(d)
		return nil, err
	}
	in, err := duplicate(from)
	if err != nil {
		unix.Close(d)
		return nil, err
	}
	// Who else reads it would see this; the ends of a pipe have a mode each.
	if err := unix.SetNonblock(in, true); err != nil {
		unix.Close(d)
		unix.Close(in)
		return nil, err
	}
	s := &source{stream: name, dir: d, in: os.NewFile(uintptr(in), string(name)), null: -1, silent: silentSplice()}
	if s.raw, err = s.in.SyscallConn(); err != nil {
		s.close()
		return nil, err
	}
	if fd, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		s.null = fd
	}
	if size, err := unix.FcntlInt(uintptr(in), unix.F_GETPIPE_SZ, 0); err == nil {
		s.pipeSize = int64(size)
	}
	s.copying = s.pipeSize == 0
	return s, nil
}

// absent fails when the directory has files of the stream.
func absent(dir int, name Stream) error {
	l, err := list(dir, name)
	if err != nil {
		return err
	}
	if !l.empty() {
		return &fs.PathError{Op: "create", Path: string(name), Err: fs.ErrExist}
	}
	return nil
}

func duplicate(f *os.File) (fd int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	cerr := conn.Control(func(old uintptr) { fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	return fd, errors.Join(cerr, err)
}

func (s *source) open(limit int64, now time.Time) {
	s.shelf = newShelf(directory(s.dir), s.stream, limit, now)
	s.publish(time.Time{})
}

func (s *source) close() {
	s.in.Close()
	unix.Close(s.dir)
	if s.null >= 0 {
		unix.Close(s.null)
	}
}

func (s *source) stats() StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known
}

// publish makes the shelf's state known. at is when bytes came; zero: none did.
func (s *source) publish(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.Seen = s.shelf.off
	s.known.Dropped = s.shelf.off - s.shelf.kept()
	if !at.IsZero() {
		s.known.LastAt = at
	}
	if s.shelf.err != nil {
		s.known.Err, s.known.ErrAt = s.shelf.err, s.shelf.errAt
	}
}

func (s *source) giveUpAt(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveUp = at
	s.arm()
}

// arm sets the deadline for what comes first: to give up, or to note the
// position. The caller holds the lock.
func (s *source) arm() {
	s.armed = s.giveUp
	_ = s.in.SetReadDeadline(s.armed) // what knows no deadline is a file, which has an end
}

// run reads the stream to its end.
func (s *source) run() {
	closed, err := s.pump()
	now := time.Now()
	s.shelf.end(closed, now)
	s.publish(time.Time{})
	s.mu.Lock()
	s.known.Closed = closed
	if err != nil {
		s.known.Err, s.known.ErrAt = err, now
	}
	s.in.Close()
	s.mu.Unlock()
	unix.Close(s.dir)
	if s.null >= 0 {
		unix.Close(s.null)
	}
}

// pump moves what comes until the end, or until the stream is given up. The
// error is the source's.
func (s *source) pump() (closed bool, err error) {
	var st status
	var mark time.Time
	// One closure for all steps: with one for each, garbage would let the memory
	// of a busy keeper grow to twice the runtime's least heap.
	step := func(fd uintptr) bool {
		st, err = s.step(int(fd), time.Now())
		mark = s.shelf.markAt()
		return st != statusEmpty || !s.ready(mark)
	}
	for {
		switch rerr := s.raw.Read(step); {
		case rerr == nil && err != nil:
			return false, err
		case rerr == nil && st == statusEnd:
			return true, nil
		case rerr == nil && st == statusEmpty:
			s.expect(mark)
		case rerr == nil:
		case !errors.Is(rerr, os.ErrDeadlineExceeded):
			return false, rerr
		case s.late():
			return s.sweep()
		default:
			s.shelf.mark(time.Now())
			s.expect(s.shelf.markAt())
		}
	}
}

// ready is true when the deadline is right to wait by.
func (s *source) ready(mark time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed.Equal(sooner(s.giveUp, mark))
}

// expect sets the deadline to wait by.
func (s *source) expect(mark time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = sooner(s.giveUp, mark)
	_ = s.in.SetReadDeadline(s.armed)
}

// sooner is the earlier of two times; zero is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// late is true when the stream is to be given up.
func (s *source) late() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.giveUp.IsZero() && !time.Now().Before(s.giveUp)
}

// sweep keeps what is in the pipe now. It waits for nothing, and no writer can
// make it go on for ever.
func (s *source) sweep() (closed bool, err error) {
	cerr := s.raw.Control(func(fd uintptr) {
		left := int64(largePipe)
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			left = int64(n)
		}
		left += s.shelf.off
		for st := statusMoved; err == nil && st == statusMoved && (s.shelf.off <= left || s.shelf.off < s.skipFrom); {
			st, err = s.step(int(fd), time.Now())
			closed = st == statusEnd
		}
	})
	return closed, errors.Join(err, cerr)
}
