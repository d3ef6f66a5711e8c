package rpc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// MaxLine is the longest line that is read, in bytes.
const MaxLine = 16 << 20

// ErrTooLong says that a line was skipped.
var ErrTooLong = errors.New("the line is too long")

// Lines reads lines of at most MaxLine bytes.
type Lines struct {
	r   *bufio.Reader
	max int
}

// NewLines reads lines from r, which is its own from then on.
func NewLines(r io.Reader) *Lines { return &Lines{bufio.NewReaderSize(r, 64<<10), MaxLine} }

// Next reads a line, without its end, which is the caller's then. One that is
// too long is read over without being kept: the error is ErrTooLong, and the
// next line can be read. A last line needs no end: an object that
// was cut off is not JSON.
func (l *Lines) Next() ([]byte, error) {
	// What comes is put together once, at its end: a buffer that grows with it
	// would leave several times as much for the collector.
	var parts [][]byte
	size := 0
	for {
		part, err := l.r.ReadSlice('\n')
		if size += len(part); size > l.max+1 {
			return nil, l.skip(err)
		}
		parts = append(parts, bytes.Clone(part))
		switch {
		case err == nil:
			return bytes.TrimRight(joined(parts), "\r\n"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			if size > 0 && errors.Is(err, io.EOF) {
				return joined(parts), nil
			}
			return nil, err
		}
	}
}

func joined(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	return bytes.Join(parts, nil)
}

func (l *Lines) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil {
		return err
	}
	return ErrTooLong
}
