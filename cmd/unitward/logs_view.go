package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
)

// logView prints the output of a job.
type logView struct {
	a       *app
	dir     *os.File
	streams []*logStream
	cursor  capture.Cursor
	buf     []byte
	// stop is closed to leave off in the midst; nil is never.
	stop chan struct{}
}

// logStream is one stream and how far it was printed.
type logStream struct {
	name capture.Stream
	// r is nil while the stream is not there.
	r   *capture.Reader
	off int64
	// closed is true when there will be no more than was seen.
	closed bool
}

// logObject is a piece of output as JSON.
type logObject struct {
	Stream capture.Stream `json:"stream"`
	// Offset is that of the first byte of the data.
	Offset int64 `json:"offset"`
	// Data is the output; DataBase64 is, where it is not UTF-8.
	Data       *string `json:"data,omitempty"`
	DataBase64 *string `json:"data_base64,omitempty"`
	// Dropped is how many bytes before Offset were dropped.
	Dropped int64 `json:"dropped"`
}

// logEnd is the last object.
type logEnd struct {
	Cursor string `json:"cursor"`
	// Closed is true when nothing will come after the cursor.
	Closed bool `json:"closed"`
	// Lost is true when who kept the output was killed: what was written after the
	// cursor is kept nowhere.
	Lost bool `json:"lost,omitempty"`
}

func (v *logView) close() {
	for _, s := range v.streams {
		if s.r != nil {
			s.r.Close()
		}
	}
	if v.dir != nil {
		v.dir.Close()
	}
}

// seek goes to where the newest lines begin, if that is further on.
func (s *logStream) seek(tail int) error {
	size := int64(0)
	if s.r != nil {
		var err error
		if size, _, err = s.r.Size(); err != nil {
			return err
		}
	}
	if s.off > size {
		return &capture.CursorError{Stream: s.name, Offset: s.off, End: size}
	}
	if tail == everything || s.r == nil {
		return nil
	}
	at, err := s.r.Tail(tail)
	s.off = max(s.off, at)
	return err
}

// past prints what is there now, one stream after the other.
func (v *logView) past() error {
	for _, s := range v.streams {
		if _, err := v.show(s, true); err != nil {
			return err
		}
	}
	return nil
}

// show prints a stream up to where it has come by now, and says whether there
// was anything. final says that it will not be called again: what may be the
// beginning of a character is printed as it is.
func (v *logView) show(s *logStream, final bool) (moved bool, err error) {
	if s.r == nil {
		if s.r, err = capture.Open(v.dir, s.name); err != nil {
			s.r = nil
			s.closed = errors.Is(err, os.ErrNotExist)
			if s.closed {
				err = nil
			}
			return false, err
		}
	}
	end, closed, err := s.r.Size()
	if err != nil {
		return false, err
	}
	s.closed = closed
	for s.off < end && !v.stopped() {
		n, from, err := v.fill(s)
		if err != nil {
			return moved, err
		}
		// What came after the look is for the next time.
		from = min(from, end)
		n = int(min(int64(n), end-from))
		b := v.buf[:n]
		if v.a.json {
			switch {
			case broken(b) > 0:
				b = b[:broken(b)]
			case from+int64(n) < end:
				b = b[:whole(b, true)]
			case !final && !closed:
				b = b[:whole(b, false)]
			}
		}
		if len(b) == 0 && from == s.off {
			return moved, nil // a part of a character
		}
		if err := v.print(s, b, from); err != nil {
			return moved, err
		}
		s.off, moved = from+int64(len(b)), true
	}
	return moved, nil
}

func (v *logView) stopped() bool {
	select {
	case <-v.stop:
		return true
	default:
		return false
	}
}

// fill reads as much as there is in one piece, which may be in several files,
// and as the buffer takes.
func (v *logView) fill(s *logStream) (n int, from int64, err error) {
	n, from, err = s.r.ReadAt(v.buf, s.off)
	for err == nil && n < len(v.buf) {
		next := from + int64(n)
		more, at, merr := s.r.ReadAt(v.buf[n:], next)
		if merr != nil || at != next {
			break // the next time will have it
		}
		n += more
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, from, err
}

// print prints a piece that begins at from, and before it what is missing.
func (v *logView) print(s *logStream, b []byte, from int64) error {
	dropped := from - s.off
	if v.a.json {
		o := logObject{Stream: s.name, Offset: from, Dropped: dropped}
		if utf8.Valid(b) {
			text := string(b)
			o.Data = &text
		} else {
			text := base64.StdEncoding.EncodeToString(b)
			o.DataBase64 = &text
		}
		return printJSON(v.a.Out, o)
	}
	if dropped > 0 {
		if _, err := fmt.Fprintf(v.a.Err, "unitward: %d bytes of %s were dropped here\n", dropped, s.name); err != nil {
			return err
		}
	}
	out := v.a.Out
	if s.name == capture.Stderr {
		out = v.a.Err
	}
	_, err := out.Write(b)
	return err
}

// broken is how many bytes at the beginning are the rest of a character, where
// what follows is whole.
func broken(b []byte) int {
	for i := range min(len(b), utf8.UTFMax) {
		if utf8.RuneStart(b[i]) {
			if i > 0 && utf8.Valid(b[i:i+whole(b[i:], false)]) {
				return i
			}
			return 0
		}
	}
	return 0
}

// whole is how much of b to take so that no character is cut: all of it, but
// for what may be the first bytes of one. With lines it is up to the last end
// of a line, if there is one. It is never nothing when b is more than that.
func whole(b []byte, lines bool) int {
	if lines {
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] == '\n' {
				return i + 1
			}
		}
	}
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) && (i > 0 || !lines) {
				return i
			}
			break
		}
	}
	return len(b)
}

// finish prints the place that was reached, and that no more can be.
func (v *logView) finish(j *launch.Job, show bool) error {
	closed := true
	for _, s := range v.streams {
		v.cursor = v.cursor.With(s.name, s.off)
		closed = closed && s.closed
	}
	lost := !closed && j.OutputLost()
	if v.a.json {
		return printJSON(v.a.Out, logEnd{v.cursor.String(), closed, lost})
	}
	if lost {
		if _, err := fmt.Fprintln(v.a.Err, "unitward: who kept the output was killed: what came after this is lost"); err != nil {
			return err
		}
	}
	if show {
		_, err := fmt.Fprintf(v.a.Err, "cursor: %s\n", v.cursor)
		return err
	}
	return nil
}
