package capture

import (
	"errors"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// status is what became of an attempt to move bytes.
type status int

const (
	// statusMoved: some were moved, or the disk refused; there may be more.
	statusMoved status = iota
	// statusEmpty: there are none now.
	statusEmpty
	// statusEnd: there will be no more.
	statusEnd
)

const (
	// maxMove is how much is moved at once: a pipe that is being spliced from
	// takes nothing meanwhile.
	maxMove = 256 << 10
	// bufferSize is for sources and file systems without splice(2).
	bufferSize = 64 << 10
)

// step moves what is there now to the shelf, once, without waiting for the
// source. The error is the source's.
func (s *source) step(fd int, now time.Time) (status, error) {
	before := s.shelf.off
	st, err := s.move(fd, now)
	if moved := s.shelf.off - before; moved > 0 {
		s.publish(now)
		if s.exceeded != nil && s.shelf.off > s.shelf.cap {
			s.exceeded()
			s.exceeded = nil
		}
		if s.rest != nil && s.shelf.off >= s.restAt {
			s.restAt = s.shelf.off + s.restBytes
			s.rest()
		}
		if !s.grown && s.shelf.off >= muchOutput {
			s.grow(fd)
		}
	} else if st == statusMoved {
		s.publish(time.Time{}) // an error
	}
	if s.untouched && (st != statusMoved || now.Sub(s.touchedAt) >= touchAfter) {
		s.touch(now)
	}
	return st, err
}

// move is step without what follows from it.
func (s *source) move(fd int, now time.Time) (status, error) {
	if s.copying {
		return s.copy(fd, now)
	}
	if s.shelf.full() {
		// A segment is not given up for bytes that do not come.
		if st := look(fd); st != statusMoved {
			return st, nil
		}
		if n := s.useless(fd); n > 0 {
			return s.discard(fd, n, s.shelf.skip)
		}
	}
	to, at, n, ok := s.shelf.room(now)
	if !ok {
		return s.discard(fd, maxMove, s.shelf.drop)
	}
	moved, err := splice(fd, to, &at, min(n, maxMove))
	switch {
	case err == nil && moved == 0:
		return statusEnd, nil
	case err == nil:
		s.shelf.wrote(moved)
		s.untouched = s.silent
		return statusMoved, nil
	case errors.Is(err, unix.EAGAIN):
		return statusEmpty, nil
	case unable(err):
		s.copying = true
		return s.copy(fd, now)
	}
	// A pipe has no errors: it is the disk's.
	s.shelf.failed(err, now)
	return statusMoved, nil
}

// unable is true for the errors of splice(2) that say that it cannot do it:
// not every file system can, and a filter of system calls may forbid it.
func unable(err error) bool {
	for _, e := range []syscall.Errno{unix.EINVAL, unix.ENOSYS, unix.EOPNOTSUPP, unix.EPERM, unix.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// useless is how many of the bytes in the pipe need not be written at all,
// because those behind them would push them out. After each such skip as much
// is written as the tail holds: what is on disk never falls far behind.
func (s *source) useless(fd int) int64 {
	span := s.shelf.span()
	if s.shelf.off < s.skipTo {
		return s.skipTo - s.shelf.off // one move did not take them all
	}
	if span == 0 || span >= largePipe || s.shelf.inHead || s.shelf.off < s.skipFrom {
		return 0
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if err != nil || int64(n) <= span {
		return 0
	}
	s.skipFrom = s.shelf.off + int64(n)
	s.skipTo = s.skipFrom - span
	return int64(n) - span
}

// look tells what a read would give, without reading.
func look(fd int) status {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		switch {
		case err == unix.EINTR:
		case err != nil || p[0].Revents&unix.POLLIN != 0:
			return statusMoved
		case n == 0:
			return statusEmpty
		default:
			return statusEnd // POLLHUP: no writer is left (poll(2))
		}
	}
}

// splice moves bytes from a pipe to a file; at is nil for a device.
func splice(from, to int, at *int64, n int64) (int64, error) {
	for {
		moved, err := unix.Splice(from, nil, to, at, int(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return moved, err
		}
	}
}

// discard takes at most n bytes and has them counted.
func (s *source) discard(fd int, n int64, count func(int64)) (status, error) {
	moved, err := int64(0), error(unix.EINVAL)
	if s.null >= 0 {
		moved, err = splice(fd, s.null, nil, min(n, maxMove))
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return statusEmpty, nil
	case err != nil:
		b := s.buffer()
		got, st, err := read(fd, b[:min(n, bufferSize)])
		count(int64(got))
		return st, err
	case moved == 0:
		return statusEnd, nil
	}
	count(moved)
	return statusMoved, nil
}

func (s *source) buffer() []byte {
	if s.buf == nil {
		s.buf = make([]byte, bufferSize)
	}
	return s.buf
}

// copy is move by way of a buffer.
func (s *source) copy(fd int, now time.Time) (status, error) {
	n, st, err := read(fd, s.buffer())
	if st != statusMoved || err != nil {
		return st, err
	}
	b := s.buf[:n]
	for len(b) > 0 {
		if span := s.shelf.span(); s.shelf.full() && !s.shelf.inHead && span > 0 && int64(len(b)) > span {
			s.shelf.skip(int64(len(b)) - span)
			b = b[int64(len(b))-span:]
		}
		to, at, room, ok := s.shelf.room(now)
		if !ok {
			s.shelf.drop(int64(len(b)))
			break
		}
		n, err := unix.Pwrite(to, b[:min(room, int64(len(b)))], at)
		if n > 0 {
			s.shelf.wrote(int64(n))
			b = b[n:]
		}
		if err == nil && n == 0 {
			err = unix.EIO
		}
		if err != nil && err != unix.EINTR {
			s.shelf.failed(err, now)
		}
	}
	return statusMoved, nil
}

func read(fd int, b []byte) (int, status, error) {
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return 0, statusEmpty, nil
		case err == unix.EIO:
			return 0, statusEnd, nil // a terminal nobody has open any more
		case err != nil:
			return 0, statusEnd, err
		case n == 0:
			return 0, statusEnd, nil
		default:
			return n, statusMoved, nil
		}
	}
}

// grow makes the pipe as large as it may be.
func (s *source) grow(fd int) {
	s.grown = true
	for size := int64(largePipe); size > s.pipeSize && s.pipeSize > 0; size /= 2 {
		if got, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, int(size)); err == nil {
			s.pipeSize = int64(got)
			return
		}
	}
}

// touch wakes who watches the file.
func (s *source) touch(now time.Time) {
	s.untouched, s.touchedAt = false, now
	if s.shelf.fd >= 0 {
		_ = unix.Fchmod(s.shelf.fd, 0o600) // IN_ATTRIB
	}
}

// silentSplice is true on kernels before 6.4, where splice(2) makes no event
// IN_MODIFY ("splice: report related fsnotify events").
func silentSplice() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return true
	}
	var version [2]int
	i := 0
	for _, c := range u.Release {
		if c == '.' {
			if i++; i == len(version) {
				break
			}
			continue
		}
		if c < '0' || c > '9' {
			break
		}
		version[i] = version[i]*10 + int(c-'0')
	}
	return version[0] < 6 || version[0] == 6 && version[1] < 4
}
