package serve

import (
	"fmt"
	"os"
	"sync"
)

// maxStdin is how much of what was written to a job can wait for it.
const maxStdin = 1 << 20

// input is a job's standard input. Who writes to it never waits.
type input struct {
	w *os.File

	mu     sync.Mutex
	buf    []byte
	wake   chan struct{}
	ended  bool
	broken bool
}

func newInput(w *os.File) *input {
	in := &input{w: w, wake: make(chan struct{}, 1)}
	go in.run()
	return in
}

// write takes all of p, or none of it.
func (in *input) write(p []byte) (buffered int, fault *Error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	room := maxStdin - len(in.buf)
	switch {
	case in.ended:
		return 0, fail(CodeStdin, KindStdin, "cannot write to the job: its standard input was closed")
	case in.broken:
		return 0, fail(CodeStdin, KindStdin, "cannot write to the job: nobody reads its standard input any more")
	case len(p) > maxStdin:
		e := fail(CodeStdin, KindStdin, fmt.Sprintf("cannot write %d bytes to the job: at most %d can wait for it", len(p), maxStdin), "write it in pieces")
		e.Data.Room = &room
		return 0, e
	case len(p) > room:
		e := fail(CodeStdin, KindStdin, "cannot write to the job: it has not read what was written before", "write less, or again later")
		e.Data.Room = &room
		return 0, e
	}
	in.buf = append(in.buf, p...)
	in.poke()
	return len(in.buf), nil
}

// end closes the input once all was written that waits.
func (in *input) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.poke()
}

// close gives up what waits.
func (in *input) close() {
	in.mu.Lock()
	in.ended, in.broken, in.buf = true, true, nil
	in.poke()
	in.mu.Unlock()
	in.w.Close() // it also ends a write that waits
}

func (in *input) poke() {
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (in *input) run() {
	for range in.wake {
		for {
			in.mu.Lock()
			p := in.buf
			finished := len(p) == 0 && in.ended || in.broken
			in.mu.Unlock()
			if finished {
				in.w.Close()
				return
			}
			if len(p) == 0 {
				break
			}
			n, err := in.w.Write(p[:min(len(p), 64<<10)])
			in.mu.Lock()
			if n <= len(in.buf) {
				in.buf = in.buf[n:]
			}
			if len(in.buf) == 0 {
				in.buf = nil
			}
			in.broken = in.broken || err != nil
			in.mu.Unlock()
		}
	}
}
