package serve

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// gather reads the output of all jobs: one goroutine, with one buffer, for any
// number of pipes. With a goroutine for each, idle jobs would cost their stacks.
type gather struct {
	mu sync.Mutex
	// epoll is nil until the first pipe comes.
	epoll   *os.File
	next    uint64
	streams map[uint64]*stream
}

// open begins, before the first pipe is made: where that cannot be done, no job
// is to run whose output nobody reads.
func (g *gather) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.epoll != nil {
		return nil
	}
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("cannot read the output of jobs: epoll_create1: %w", err)
	}
	// An epoll can be waited for as what is in it can (epoll(7)): by the poller
	// of the runtime, with no thread for it.
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return fmt.Errorf("cannot read the output of jobs: fcntl: %w", err)
	}
	epoll := os.NewFile(uintptr(fd), "epoll")
	raw, err := epoll.SyscallConn()
	if err != nil {
		epoll.Close()
		return fmt.Errorf("cannot read the output of jobs: %w", err)
	}
	g.epoll, g.streams = epoll, map[uint64]*stream{}
	go g.run(raw.Read)
	return nil
}

// add makes room for a stream, which a kernel may not have.
func (g *gather) add(s *stream) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next++
	s.id = g.next
	// Nothing is asked for yet. That it was closed is told all the same, once, and
	// again to who asks.
	if err := g.control(unix.EPOLL_CTL_ADD, s, unix.EPOLLONESHOT); err != nil {
		return fmt.Errorf("cannot read the output of the job: %w", err)
	}
	return nil
}

// begin has a stream read until it ends.
func (g *gather) begin(s *stream) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.streams[s.id] = s
	return g.control(unix.EPOLL_CTL_MOD, s, unix.EPOLLIN)
}

// control is epoll_ctl(2), for who holds the lock.
func (g *gather) control(op int, s *stream, events uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: int32(uint32(s.id)), Pad: int32(s.id >> 32)}
	raw, err := g.epoll.SyscallConn()
	if err != nil {
		return err
	}
	var cerr error
	err = raw.Control(func(epoll uintptr) { cerr = unix.EpollCtl(int(epoll), op, s.fd, &ev) })
	return errors.Join(err, os.NewSyscallError("epoll_ctl", cerr))
}

// remove takes a stream out, whose descriptor is closed next.
func (g *gather) remove(s *stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.streams, s.id)
	_ = g.control(unix.EPOLL_CTL_DEL, s, 0) // closing it does the same
}

// close ends the goroutine. Streams that are left are read no more.
func (g *gather) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.epoll != nil {
		g.epoll.Close()
	}
}

// run reads what is there until the epoll is closed. read is that of its
// syscall.RawConn.
func (g *gather) run(read func(func(uintptr) bool) error) {
	var events [64]unix.EpollEvent
	buf := make([]byte, maxChunk)
	for {
		n := 0
		err := read(func(fd uintptr) bool {
			var err error
			for {
				if n, err = unix.EpollWait(int(fd), events[:], 0); !errors.Is(err, unix.EINTR) {
					break
				}
			}
			return n != 0 // nothing yet, but for an error, which does not pass
		})
		if err != nil || n < 0 {
			return
		}
		for _, ev := range events[:n] {
			id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
			g.mu.Lock()
			s := g.streams[id]
			g.mu.Unlock()
			if s != nil {
				s.out.readFrom(s, buf)
			}
		}
	}
}
