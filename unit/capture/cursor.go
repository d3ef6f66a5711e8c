package capture

import (
	"fmt"
	"strings"
)

// Cursor is a place in a job's output: how many bytes of each stream come
// before it. The zero value is the beginning.
type Cursor struct {
	Stdout, Stderr int64
}

// String writes the cursor as ParseCursor reads it, such as "o123e45".
func (c Cursor) String() string { return fmt.Sprintf("o%de%d", c.Stdout, c.Stderr) }

// ParseCursor reads a cursor. The error is a *CursorSyntaxError for all that
// Cursor.String does not write.
func ParseCursor(s string) (Cursor, error) {
	if rest, ok := strings.CutPrefix(s, "o"); ok {
		if out, err, ok := strings.Cut(rest, "e"); ok {
			a, good := parseDecimal(out)
			b, too := parseDecimal(err)
			if good && too {
				return Cursor{a, b}, nil
			}
		}
	}
	return Cursor{}, &CursorSyntaxError{s}
}

// parseDecimal reads a number in the one form in which it is written.
func parseDecimal(s string) (int64, bool) {
	if len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	return parseDigits(s)
}

// Offset is the cursor's place in one stream.
func (c Cursor) Offset(s Stream) int64 {
	if s == Stderr {
		return c.Stderr
	}
	return c.Stdout
}

// With is the cursor with another place in one stream.
func (c Cursor) With(s Stream, offset int64) Cursor {
	if s == Stderr {
		c.Stderr = offset
	} else {
		c.Stdout = offset
	}
	return c
}

// CursorSyntaxError says that a text is no cursor.
type CursorSyntaxError struct {
	Text string
}

func (e *CursorSyntaxError) Error() string {
	return fmt.Sprintf("cannot read the cursor %.80q: it is not of the form o123e45", e.Text)
}

// CursorError says that a place lies behind the end of a stream.
type CursorError struct {
	Stream Stream
	// Offset is the place, End the number of bytes of the stream, so far.
	Offset, End int64
}

func (e *CursorError) Error() string {
	return fmt.Sprintf("cannot read %s from byte %d: it has %d bytes", e.Stream, e.Offset, e.End)
}
