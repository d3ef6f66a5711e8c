package terminal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxViewers bounds how many are at a terminal at once.
	maxViewers = 16
	// helloWait is how long one who comes has to say who he is.
	helloWait = 5 * time.Second
	// lastWait is how long, at the end, those who are slow have for the rest.
	lastWait = time.Second
	// typeWait is how long keys wait for a job that takes none before it is
	// looked whether their typist is still there.
	typeWait = 100 * time.Millisecond
)

// Holder holds a job's terminal, and lets those at it who come to its socket:
// any number of viewers up to 16, of whom one types. The job is never held up
// for one who is slow: he is shown the newest screen when he is ready again.
type Holder struct {
	pty    *PTY
	tee    *os.File
	dir    int
	socket *os.File
	// printed is closed when nothing is taken from the terminal any more.
	printed chan struct{}
	// at is everybody who is at the socket.
	at sync.WaitGroup
	// typing is held while keys are typed.
	typing sync.Mutex
	once   sync.Once

	mu      sync.Mutex
	more    sync.Cond
	history history
	ended   bool
	closing bool
	// viewers came in this order; coming have not said hello.
	viewers []*viewer
	coming  map[*os.File]bool
	// writer is the one of the viewers who types; nil is none.
	writer *viewer
}

// Hold begins to take what a job prints, and to let viewers at it by the socket
// that it makes in dir (SocketName), which the caller may close then. What is
// printed is also written to tee, if that is not nil; who reads there must not
// stop to. The holder closes tee and pty. Close it.
func Hold(pty *PTY, dir, tee *os.File) (*Holder, error) {
	h := &Holder{pty: pty, tee: tee, printed: make(chan struct{}), coming: map[*os.File]bool{}}
	h.more.L = &h.mu
	var err error
	if h.socket, err = listen(dir); err != nil {
		return nil, err
	}
	err = control(dir, func(fd int) (err error) {
		h.dir, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		h.socket.Close()
		return nil, fmt.Errorf("cannot hold a terminal: %w", err)
	}
	go h.print()
	h.at.Go(h.admit)
	return h, nil
}

// print takes what the job prints until Finish.
func (h *Holder) print() {
	defer close(h.printed)
	Print(h.pty, func(b []byte) bool {
		if h.tee != nil {
			if _, err := h.tee.Write(b); err != nil {
				h.tee.Close() // nobody reads it any more
				h.tee = nil
			}
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.history.add(b)
		h.more.Broadcast()
		return true
	})
	if h.tee != nil {
		h.tee.Close()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	h.more.Broadcast()
}

// Finish takes what was printed until now, and nothing more. It can be called
// again.
func (h *Holder) Finish() {
	Settle(h.pty)
	<-h.printed
}

// Close lets nobody come any more, finishes, and gives those who are there the
// time to take the rest, a second at most. The job is then hung up on. It can be
// called again.
func (h *Holder) Close() {
	h.once.Do(func() {
		_ = unix.Unlinkat(h.dir, SocketName, 0) // the directory may be gone
		unix.Close(h.dir)
		h.socket.Close()
		h.Finish()
		h.mu.Lock()
		h.closing = true
		for _, v := range h.viewers {
			_ = v.conn.SetWriteDeadline(time.Now().Add(lastWait)) // it fails for one who has gone
		}
		for conn := range h.coming {
			_ = conn.SetDeadline(past)
		}
		h.mu.Unlock()
		h.at.Wait()
		h.pty.Close()
	})
}

// admit lets viewers come until Close.
func (h *Holder) admit() {
	for {
		conn, err := accept(h.socket)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(typeWait) // no descriptors are left; there may be some again
			continue
		}
		h.mu.Lock()
		full := len(h.coming)+len(h.viewers) >= maxViewers
		if !full {
			h.coming[conn] = true
		}
		h.mu.Unlock()
		if full {
			_ = sayJSON(conn, sayAnswer, answer{Protocol: protocol, Refused: fmt.Sprintf("%d are at its terminal, no more can be", maxViewers)})
			conn.Close()
			continue
		}
		h.at.Go(func() { h.greet(conn) })
	}
}

// greet hears who comes, and serves him.
func (h *Holder) greet(conn *os.File) {
	var who hello
	_ = conn.SetDeadline(time.Now().Add(helloWait))
	err := hearJSON(conn, sayHello, &who)
	h.mu.Lock()
	delete(h.coming, conn)
	if err != nil || who.Protocol != protocol || h.closing {
		h.mu.Unlock()
		if err == nil && who.Protocol != protocol {
			_ = sayJSON(conn, sayAnswer, answer{Protocol: protocol, Refused: fmt.Sprintf("who holds its terminal speaks version %d, not %d: use the unitward that started it", protocol, who.Protocol)})
		}
		conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	v := &viewer{h: h, conn: conn, wants: who.Write, size: who.Size, from: h.history.off, shown: h.history.screenful(h.rows(who.Size))}
	h.viewers = append(h.viewers, v)
	writes := who.Write && (h.writer == nil || who.Take)
	if writes {
		h.writer = v
	}
	h.mu.Unlock()
	// Said before he is shown anything; a socket that is new has room for it.
	if err := sayJSON(conn, sayAnswer, answer{Protocol: protocol, Writes: writes}); err != nil {
		h.leave(v)
		return
	}
	if writes {
		h.fit(v)
	}
	h.at.Go(v.show)
	v.listen()
}

// rows are those of a viewer; of one without a window, the terminal's.
func (h *Holder) rows(size Size) int {
	if size.Rows == 0 {
		size, _ = SizeOf(h.pty.Master)
	}
	return int(size.Rows)
}

// fit makes the terminal as large as the window of who has come to type. A
// program that has the whole screen draws it anew when the size changes
// (SIGWINCH), and so it does.
func (h *Holder) fit(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writer != v || v.size == (Size{}) {
		return
	}
	if had, _ := SizeOf(h.pty.Master); had == v.size && h.history.alternate && had.Rows > 1 {
		h.resize(Size{had.Rows - 1, had.Cols})
	}
	h.resize(v.size)
}

// resize is for who holds the lock. A window that knows only half of its size
// changes nothing.
func (h *Holder) resize(size Size) {
	if size.Rows > 0 && size.Cols > 0 {
		_ = h.pty.Resize(size) // it fails after the end
	}
}

// leave takes leave of a viewer. Who wants to type and came first then does.
func (h *Holder) leave(v *viewer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.gone {
		return
	}
	v.gone = true
	v.conn.Close()
	h.viewers = slices.DeleteFunc(h.viewers, func(o *viewer) bool { return o == v })
	if h.writer == v {
		h.writer = nil
		if i := slices.IndexFunc(h.viewers, func(o *viewer) bool { return o.wants }); i >= 0 {
			h.writer = h.viewers[i]
			h.resize(h.writer.size)
		}
	}
	h.more.Broadcast()
}
