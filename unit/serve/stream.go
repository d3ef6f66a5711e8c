package serve

import (
	"sync"

	"golang.org/x/sys/unix"
)

// stream is one pipe.
type stream struct {
	name string
	out  *piped
	// id is the gather's name of it.
	id uint64
	// reading is held while something was read that is not in the ring yet. fd
	// is the pipe, -1 once it is closed.
	reading sync.Mutex
	fd      int
	ring    ring
	// sent is the place up to which it was told.
	sent int64
	// cut is how much came after max; cutTold how much of that was told.
	cut, cutTold int64
	// lost is how much was overwritten before it was told.
	lost int64
	// ended is true once nothing more is read of it: it was closed, or given up.
	ended bool
}

// close closes the pipe; false when that was done before.
func (s *stream) close(g *gather) bool {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.fd < 0 {
		return false
	}
	g.remove(s)
	unix.Close(s.fd)
	s.fd = -1
	return true
}

// written is the place in a stream up to which it was written by now.
func (s *stream) written(p *piped) int64 {
	s.reading.Lock()
	defer s.reading.Unlock()
	waits, err := unix.IoctlGetInt(s.fd, unix.TIOCINQ)
	if err != nil {
		waits = 0 // it is closed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.ring.end + s.cut + int64(waits)
}

// atEnd is true where nothing comes after a place, ever.
func (s *stream) atEnd(place int64) bool {
	return place == s.ring.end && (s.ended || s.cut > 0)
}
