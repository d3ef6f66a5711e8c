package terminal

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// viewer is one who is at a held terminal. The holder's lock is over it.
type viewer struct {
	h    *Holder
	conn *os.File
	// wants is true for one who types when nobody else does.
	wants bool
	size  Size
	// shown is what he is to be shown before that what was printed from from on.
	shown []byte
	from  int64
	gone  bool
}

// show shows him what is printed, until the end.
func (v *viewer) show() {
	defer v.h.leave(v)
	b := make([]byte, 1+maxMessage)
	b[0] = sayOutput
	for {
		n := v.next(b[1:])
		if n == 0 {
			return
		}
		if _, err := v.conn.Write(b[:1+n]); err != nil {
			return
		}
	}
}

// next waits for what he is to be shown next; 0 is the end of that.
func (v *viewer) next(b []byte) int {
	h := v.h
	h.mu.Lock()
	defer h.mu.Unlock()
	for !v.gone {
		if late := h.history.oldest() - v.from; late > 0 {
			// He is too slow for the job.
			if !h.history.alternate {
				v.shown = fmt.Appendf(nil, "\x1b[m\r\n[%d bytes are not shown: this terminal is too slow for them]\r\n", h.history.off-v.from)
			}
			v.shown = append(v.shown, h.history.screenful(h.rows(v.size))...)
			v.from = h.history.off
		}
		if len(v.shown) > 0 {
			n := copy(b, v.shown)
			v.shown = v.shown[n:]
			return n
		}
		if n := h.history.read(b, v.from); n > 0 {
			v.from += int64(n)
			return n
		}
		if h.ended {
			return 0
		}
		h.more.Wait()
	}
	return 0
}

// listen takes what he says, until he goes.
func (v *viewer) listen() {
	defer v.h.leave(v)
	b := make([]byte, 1+maxMessage)
	for {
		letter, text, err := hear(v.conn, b)
		if err != nil {
			return
		}
		switch letter {
		case sayKeys:
			if !v.types(text) {
				return
			}
		case sayResize:
			size, ok := parseSize(text)
			if !ok {
				return
			}
			v.h.mu.Lock()
			v.size = size
			if v.h.writer == v {
				v.h.resize(size)
			}
			v.h.mu.Unlock()
		default:
			return // he speaks another language
		}
	}
}

// types types his keys, if he is the one who does. It is false when he has gone
// meanwhile.
func (v *viewer) types(keys []byte) bool {
	for len(keys) > 0 {
		n, err := v.some(keys)
		keys = keys[n:]
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if departed(v.conn) {
				return false
			}
		case err != nil:
			return true // nobody takes them any more, but what was printed is shown
		}
	}
	return true
}

var errNotWriter = errors.New("another types")

// some types what the job takes within a time.
func (v *viewer) some(keys []byte) (int, error) {
	v.h.typing.Lock()
	defer v.h.typing.Unlock()
	v.h.mu.Lock()
	writes := v.h.writer == v
	v.h.mu.Unlock()
	if !writes {
		return 0, errNotWriter
	}
	_ = v.h.pty.SetWriteDeadline(time.Now().Add(typeWait)) // it fails when the write does
	return v.h.pty.Write(keys)
}

// departed is true when the other end of a socket was closed.
func departed(conn *os.File) bool {
	gone := true
	_ = control(conn, func(fd int) error { // one that is closed here is gone, too
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(poll, 0)
		gone = poll[0].Revents != 0
		return err
	})
	return gone
}
