package dbusclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// wire is one D-Bus connection. What is sent goes out together when the first
// answer is awaited, and many messages come in by one read: a connection that
// needs a system call for each part of each message, as a general library's
// does, made a tenth of those of a program that lives ten milliseconds.
type wire struct {
	conn *net.UnixConn
	// deliver takes every signal, in order, on the goroutine that reads: it
	// must not wait.
	deliver func(*dbus.Message)
	// done is closed when the connection has ended; err then says why.
	done chan struct{}
	// passage is what the connection goes through; its zero value is nothing.
	passage Passage
	// buf holds what was read and not consumed. It is the reader's own.
	buf []byte

	mu     sync.Mutex
	serial uint32
	out    []byte
	waits  map[uint32]chan<- *dbus.Message
	err    error
	// broken is why nothing can be sent any more; the reader then ends the
	// connection.
	broken error

	// places has one for each reply that is awaited.
	places chan struct{}
	// heard is when a signal or a reply came last, in nanoseconds since 1970.
	heard atomic.Int64
}

const (
	// maxWaits is how many replies are awaited at once. A bus refuses more than
	// 128 of one connection (dbus-daemon(1), max_replies_per_connection), and
	// those that were given up count until they come.
	maxWaits = 96
	// firstRead is how much room a read has at first; it grows with messages.
	firstRead = 16 << 10
)

var errClosed = errors.New("the connection is closed")

// dialWire connects to a unix socket and authenticates as uid. It waits for
// the other side's consent only when an answer is awaited: see start.
func dialWire(path string, uid int, deliver func(*dbus.Message)) (*wire, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, err
	}
	if err := known(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return newWire(Passage{Conn: c}, uid, "NEGOTIATE_UNIX_FD\r\n", deliver), nil
}

// errApart says that numbers of processes mean others to a manager than to us.
var errApart = errors.New("it is outside of this pid namespace, where the number of a process is another's")

// known fails where who listens has no number here: it is outside of this process's
// pid namespace (unix(7), SO_PEERCRED; pid_namespaces(7)). A manager there would take
// the number of a process that it is given for another process's, move that into a
// unit and end it with it.
func known(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var perr error
	err = raw.Control(func(fd uintptr) {
		peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	switch {
	case err != nil:
		return err
	case perr != nil:
		return os.NewSyscallError("SO_PEERCRED", perr)
	case peer.Pid == 0:
		return errApart
	}
	return nil
}

// descriptor is a copy of the connection's; -1 when it is closed.
func (w *wire) descriptor() int {
	copied := -1
	raw, err := w.conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			if n, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3); err == nil {
				copied = n
			}
		})
	}
	if err != nil {
		return -1
	}
	return copied
}

// newWire is a wire over a connection; more is said between the authentication
// and the first message.
func newWire(p Passage, uid int, more string, deliver func(*dbus.Message)) *wire {
	w := &wire{
		conn: p.Conn, passage: p, deliver: deliver, done: make(chan struct{}),
		waits: map[uint32]chan<- *dbus.Message{}, buf: make([]byte, 0, firstRead),
		// All of it in one piece, as sd-bus does ("Authentication Protocol"):
		// what follows BEGIN are messages, whether or not OK was read yet.
		out:    fmt.Appendf(make([]byte, 0, 4<<10), "\x00AUTH EXTERNAL %x\r\n%sBEGIN\r\n", fmt.Append(nil, uid), more),
		places: make(chan struct{}, maxWaits),
	}
	return w
}

// start sends what is to be sent, awaits the other side's consent and begins
// to read. The error is that of ctx when it ends first.
func (w *wire) start(ctx context.Context) error {
	deadline, _ := ctx.Deadline()
	_ = w.conn.SetDeadline(deadline) // a connection that is closed says so at the next use
	stop := context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
	err := w.flush()
	if err == nil {
		err = w.consent()
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		w.end(err) // where it went through knows better
		return w.ended()
	}
	_ = w.conn.SetDeadline(time.Time{})
	go w.read()
	return nil
}

// consent reads the answers to the authentication.
func (w *wire) consent() error {
	answers := []string{"OK ", "AGREE_UNIX_FD"}
	if w.passage.End != nil {
		answers = answers[:1] // no descriptor goes that way
	}
	for _, want := range answers {
		for {
			line, rest, ok := bytes.Cut(w.buf, []byte("\r\n"))
			if ok {
				if !bytes.HasPrefix(line, []byte(want)) {
					return fmt.Errorf("the other side answered %q to the authentication", line)
				}
				w.consume(len(w.buf) - len(rest))
				break
			}
			if len(w.buf) > 4<<10 {
				return errors.New("the other side does not speak D-Bus")
			}
			if err := w.more(); err != nil {
				return err
			}
		}
	}
	return nil
}

// more reads what is there, at least a byte.
func (w *wire) more() error {
	if len(w.buf) == cap(w.buf) {
		w.buf = append(make([]byte, 0, 2*cap(w.buf)), w.buf...)
	}
	n, err := w.conn.Read(w.buf[len(w.buf):cap(w.buf)])
	w.buf = w.buf[:len(w.buf)+n]
	if n > 0 {
		return nil
	}
	return err
}

func (w *wire) consume(n int) {
	w.buf = w.buf[:copy(w.buf, w.buf[n:])]
}

func (w *wire) read() {
	for {
		n, err := dbus.Frame(w.buf)
		if err == nil && n > 0 {
			err = w.receive(w.buf[:n])
			w.consume(n)
		} else if err == nil {
			err = w.more()
		}
		if err != nil {
			w.end(err)
			return
		}
	}
}

func (w *wire) receive(b []byte) error {
	m, err := dbus.Decode(b, told)
	if err != nil {
		return err
	}
	if m.Kind == dbus.Signal || m.Kind == dbus.Reply {
		w.heard.Store(time.Now().UnixNano())
	}
	switch m.Kind {
	case dbus.Signal:
		w.deliver(m)
	case dbus.Reply, dbus.Fault:
		if ch := w.came(m.ReplySerial); ch != nil {
			ch <- m // it has room for one
		}
	}
	return nil // nobody may call us
}

// Close ends the connection. It can be called again.
func (w *wire) Close() error {
	w.end(errClosed)
	return nil
}

func (w *wire) end(err error) {
	_ = w.conn.CloseWrite() // also where a guard holds it too
	_ = w.conn.Close()      // first, for whoever writes holds the lock
	w.mu.Lock()
	over := w.err != nil
	if w.broken != nil {
		err = w.broken
	}
	w.mu.Unlock()
	if end := w.passage.End; end != nil && !over {
		if said := end(); said != nil && !errors.Is(err, errClosed) {
			err = said
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	w.err, w.waits = err, map[uint32]chan<- *dbus.Message{}
	close(w.done)
}

// ended is nil while the connection stands.
func (w *wire) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
