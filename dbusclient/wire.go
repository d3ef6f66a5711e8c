package dbusclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
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

// call puts a method call into the buffer of what is to be sent and returns
// where its reply will come; nil wants none. Where too many are awaited it waits
// for one of them. The error is a message that cannot be encoded, the connection's
// end, or that of ctx.
func (w *wire) call(ctx context.Context, dest string, path dbus.ObjectPath, method string, reply chan<- *dbus.Message, args ...any) (uint32, error) {
	i := strings.LastIndexByte(method, '.')
	m := dbus.Message{
		Kind: dbus.Call, Flags: dbus.NoAutoStart, Destination: dest, Path: path,
		Interface: method[:i], Member: method[i+1:], Body: args,
	}
	if reply == nil {
		m.Flags |= dbus.NoReplyExpected
	} else if err := w.place(ctx); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.out)
	m.Serial = w.serial + 1
	out, fds, err := m.Append(w.out)
	if err = cmp.Or(w.err, err); err != nil {
		if reply != nil {
			<-w.places
		}
		return 0, err
	}
	w.serial++
	if reply != nil {
		w.waits[w.serial] = reply
	}
	w.out = out
	if len(fds) == 0 {
		return w.serial, nil
	}
	// Descriptors travel with a byte of their own message and no other's.
	own := out[before:]
	w.out = out[:before]
	if err := w.flushLocked(); err != nil {
		return 0, err
	}
	w.limitWrite()
	n, _, err := w.conn.WriteMsgUnix(own, unix.UnixRights(fds...), nil)
	runtime.KeepAlive(args)
	if err == nil && n < len(own) {
		_, err = w.conn.Write(own[n:])
	}
	switch {
	case err == nil:
	case n == 0: // the kernel did not take the descriptors
		if reply != nil {
			delete(w.waits, w.serial)
			<-w.places
		}
	default:
		w.breakOff(err)
	}
	return w.serial, err
}

// place takes the place of a reply, which the reply gives back. Each has one of its
// own, whoever awaits it.
func (w *wire) place(ctx context.Context) error {
	select {
	case w.places <- struct{}{}:
		return nil
	default:
	}
	if err := w.flush(); err != nil {
		return err
	}
	select {
	case w.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.done:
		return w.ended()
	}
}

// limitWrite bounds the next write: a peer that does not read holds it up, and with
// it whoever else uses the connection.
func (w *wire) limitWrite() {
	_ = w.conn.SetWriteDeadline(time.Now().Add(callTimeout)) // a closed one says so at the write
}

// breakOff gives up a connection to which a part of a message went.
func (w *wire) breakOff(err error) {
	if w.broken == nil {
		w.broken = err
	}
	_ = w.conn.Close()
}

// flush sends what is to be sent.
func (w *wire) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flushLocked()
}

func (w *wire) flushLocked() error {
	if w.err != nil || len(w.out) == 0 {
		return w.err
	}
	w.limitWrite()
	_, err := w.conn.Write(w.out)
	w.out = w.out[:0]
	if err != nil {
		w.breakOff(err)
	}
	return err
}

// came takes a reply out of those that are awaited, and returns where it is to go;
// nil when nobody wants it.
func (w *wire) came(serial uint32) chan<- *dbus.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	reply, awaited := w.waits[serial]
	if awaited {
		delete(w.waits, serial)
		<-w.places
	}
	return reply
}

// forget gives up on a reply, which keeps its place: the bus counts it until it
// comes.
func (w *wire) forget(serial uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, awaited := w.waits[serial]; awaited {
		w.waits[serial] = nil
	}
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
