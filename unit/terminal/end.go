package terminal

import (
	"errors"
	"io"
	"os"
	"time"
)

// End is a job's terminal, as whoever is at it has it.
type End interface {
	// Read reads what the job prints, Write types keys. Close ends both, and what
	// goes on of them; a pseudo-terminal is hung up then.
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
	// Sweep reads what was printed until now, and waits for nothing; 0 is the end
	// of that.
	Sweep(b []byte) int
	// Resize sets the size of the window.
	Resize(size Size) error
	// EndInput lets the job read the end of its input, as at the end of a pipe:
	// whenever it reads, until stop, which is asked with a pause to make, returns
	// true. within says that the last key did not end a line.
	EndInput(within bool, stop func(pause time.Duration) bool)
}

// sweepMost bounds what is read after the end, of a job that goes on.
const sweepMost = 1 << 20

// past is a deadline that has passed.
var past = time.Unix(1, 0)

// Print passes on what a job prints, until the end of that, until to returns
// false or, after Settle, what was printed before that.
func Print(from End, to func([]byte) bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !to(buf[:n]) {
			return
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			for had := 0; had < sweepMost; had += n {
				if n = from.Sweep(buf); n == 0 || !to(buf[:n]) {
					return
				}
			}
			return
		case err != nil:
			return
		}
	}
}

// Settle ends a Print.
func Settle(from End) {
	_ = from.SetReadDeadline(past) // it fails when it was closed, and so does the read
}
