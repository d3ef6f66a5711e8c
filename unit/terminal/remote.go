package terminal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Remote is a terminal that a Holder holds, as one of its viewers has it. To
// close it leaves the job alone.
type Remote struct {
	conn   *os.File
	writes bool

	// What follows is for who reads.
	buf  []byte
	rest []byte
}

// Visit is how somebody comes to a held terminal.
type Visit struct {
	// Write wants to type: at once when nobody does, else after him. Take
	// wants it at once in any case.
	Write, Take bool
	// Size is that of his window; the zero value is that he has none.
	Size Size
}

// ErrNoHolder says that nobody holds the terminal: the job never had one, or it
// ended, or its keeper did.
var ErrNoHolder = errors.New("nobody holds its terminal")

// RefusedError is a holder's refusal.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// answerWait bounds the wait for a holder's answer.
const answerWait = 5 * time.Second

// Attach comes to the terminal of the job with the directory dir, which the
// caller may close then. The error is ErrNoHolder or a *RefusedError, matches
// os.ErrDeadlineExceeded or EAGAIN where the holder does not answer, or says what
// is wrong with the socket.
func Attach(dir *os.File, visit Visit) (*Remote, error) {
	conn, err := dial(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, ErrNoHolder
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the socket %s/%s: %w", dir.Name(), SocketName, err)
	}
	_ = conn.SetDeadline(time.Now().Add(answerWait))
	var a answer
	err = sayJSON(conn, sayHello, hello{protocol, visit.Write, visit.Take, visit.Size})
	if gone(err) {
		err = nil // a refusal may have been said before
	}
	if err == nil {
		err = hearJSON(conn, sayAnswer, &a)
	}
	switch {
	case errors.Is(err, io.EOF), gone(err):
		err = ErrNoHolder // it ended at this moment
	case err != nil:
		err = fmt.Errorf("cannot come to terms with who holds the terminal: %w", err)
	case a.Refused != "":
		err = &RefusedError{a.Refused}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{})
	return &Remote{conn: conn, writes: a.Writes, buf: make([]byte, 1+maxMessage)}, nil
}

// gone is true for the error of one who speaks to nobody.
func gone(err error) bool { return errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) }

// Writes reports whether the visitor types, when he came.
func (r *Remote) Writes() bool { return r.writes }

func (r *Remote) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		letter, text, err := hear(r.conn, r.buf)
		if err != nil {
			return 0, err
		}
		if letter == sayOutput {
			r.rest = text
		}
	}
	return r.take(b), nil
}

// take copies what was read.
func (r *Remote) take(b []byte) int {
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n
}

// Sweep reads what the holder has said until now.
func (r *Remote) Sweep(b []byte) int {
	if len(r.rest) == 0 {
		_ = control(r.conn, func(fd int) error { // what is closed has nothing more
			n, err := unix.Read(fd, r.buf)
			if errors.Is(err, unix.ECONNRESET) {
				n, err = unix.Read(fd, r.buf) // as in hear
			}
			if err == nil && n > 0 && r.buf[0] == sayOutput {
				r.rest = r.buf[1:n]
			}
			return err
		})
	}
	return r.take(b)
}

// Write types keys. Those of one who does not write are lost.
func (r *Remote) Write(b []byte) (n int, err error) {
	for len(b) > 0 {
		part := b[:min(len(b), maxMessage)]
		if err := say(r.conn, sayKeys, part); err != nil {
			return n, err
		}
		n, b = n+len(part), b[len(part):]
	}
	return n, nil
}

// Close leaves the terminal.
func (r *Remote) Close() error { return r.conn.Close() }

// SetReadDeadline is that of os.File.
func (r *Remote) SetReadDeadline(t time.Time) error { return r.conn.SetReadDeadline(t) }

// SetWriteDeadline is that of os.File.
func (r *Remote) SetWriteDeadline(t time.Time) error { return r.conn.SetWriteDeadline(t) }

// Resize makes the terminal so large, when the visitor types.
func (r *Remote) Resize(size Size) error { return say(r.conn, sayResize, size.message()) }

// EndInput does nothing: that a visitor has no more to type is not the end of
// the job's input.
func (r *Remote) EndInput(bool, func(time.Duration) bool) {}
