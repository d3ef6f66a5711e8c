package serve

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// tail tells of captured output, as it comes.
type tail struct {
	name     string
	encoding string
	changed  func()
	dir      *os.File
	watch    *capture.Watch
	stop     context.CancelFunc
	ended    chan struct{}

	mu   sync.Mutex
	at   capture.Cursor
	turn int
	// shut is true once the job is over: what is there is all there will be.
	shut bool
}

// streams are those of a capture.
var streamNames = [...]capture.Stream{capture.Stdout, capture.Stderr}

// newTail prepares to tell of the output in a job's directory, which is the
// tail's then.
func newTail(dir *os.File, name, encoding string, at capture.Cursor) (*tail, error) {
	w, err := capture.NewWatch(dir)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return &tail{name: name, encoding: encoding, dir: dir, watch: w, at: at, ended: make(chan struct{})}, nil
}

// begin tells of what is there and begins to watch for more.
func (t *tail) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	t.stop = cancel
	t.changed()
	go func() {
		defer close(t.ended)
		for t.watch.Wait(ctx) == nil {
			t.changed()
		}
	}()
}

// close ends the watch. What is there by then is still told.
func (t *tail) close() {
	t.stop()
	<-t.ended
	_ = t.watch.Close()
	t.mu.Lock()
	t.shut = true
	t.mu.Unlock()
	t.changed()
}

// next is the next message for the client. The directory is closed once there
// will be none.
func (t *tail) next() event {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dir == nil {
		return nil
	}
	for range streamNames {
		s := streamNames[t.turn%len(streamNames)]
		t.turn++
		if m := t.of(s); m != nil {
			return m
		}
	}
	if t.shut {
		t.dir.Close()
		t.dir = nil
	}
	return nil
}

// of is the next message of one stream. What cannot be read is left to
// job.output, which says why.
func (t *tail) of(s capture.Stream) event {
	place := t.at.Offset(s)
	b, from, last, err := readCapture(t.dir, s, place, maxChunk)
	if err != nil {
		return nil
	}
	if from > place {
		t.at = t.at.With(s, from)
		return &Dropped{Name: t.name, Stream: string(s), Offset: place, Bytes: from - place, Why: droppedLimit}
	}
	if t.encoding == rpc.EncodingText && !last && !t.shut {
		b = b[:rpc.Whole(b)]
	}
	if len(b) == 0 {
		return nil
	}
	t.at = t.at.With(s, from+int64(len(b)))
	return &Output{Name: t.name, Chunk: Chunk{
		Stream: string(s), Offset: from, Bytes: len(b), Encoding: t.encoding, Data: rpc.Encode(b, t.encoding),
	}}
}

// readCapture reads a piece of a captured stream: at most some bytes, from the
// first that is kept at or after a place. last is true when nothing comes after
// it, ever. A stream of which nothing was captured yet is empty.
func readCapture(dir *os.File, s capture.Stream, place, most int64) (b []byte, from int64, last bool, err error) {
	r, err := capture.Open(dir, s)
	if errors.Is(err, fs.ErrNotExist) {
		if place > 0 {
			return nil, place, false, &capture.CursorError{Stream: s, Offset: place}
		}
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, place, false, err
	}
	defer func() { _ = r.Close() }()
	size, closed, err := r.Size()
	if err != nil {
		return nil, place, false, err
	}
	b = make([]byte, max(min(most, size-place), 1))
	n := 0
	for from = place; n < len(b); {
		got, at, err := r.ReadAt(b[n:], from+int64(n))
		if errors.Is(err, io.EOF) {
			if n == 0 {
				from = at
			}
			break
		}
		if err != nil {
			return nil, place, false, err
		}
		if n > 0 && at != from+int64(n) {
			break // the rest begins after a gap
		}
		if n == 0 {
			from = at
		}
		n += got
	}
	return b[:n], from, closed && from+int64(n) >= size, nil
}
