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

// streamNames are those of a capture.
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

// discard gives a tail up that nobody has begun.
func (t *tail) discard() {
	_ = t.watch.Close()
	t.dir.Close()
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
	p, err := readCapture(t.dir, s, place, maxChunk)
	if err != nil {
		return nil
	}
	b, from := p.bytes, p.from
	if from > place {
		t.at = t.at.With(s, from)
		return &Dropped{Name: t.name, Stream: string(s), Offset: place, Bytes: from - place, Why: droppedLimit}
	}
	if t.encoding == rpc.EncodingText && !t.shut {
		b = p.text()
	}
	if len(b) == 0 {
		return nil
	}
	t.at = t.at.With(s, from+int64(len(b)))
	return &Output{Name: t.name, Chunk: Chunk{
		Stream: string(s), Offset: from, Bytes: len(b), Encoding: t.encoding, Data: rpc.Encode(b, t.encoding),
	}}
}

// piece is one of a captured stream.
type piece struct {
	bytes []byte
	// from is the place of the first of them.
	from int64
	// more is true when there is more to read now, last when nothing comes after
	// it, ever.
	more, last bool
	// gap is true when what comes after it was dropped.
	gap bool
}

// text is as much of it as can be told as text: half a character at its end waits for
// its rest, but where none will come.
func (p piece) text() []byte {
	if p.last || p.gap {
		return p.bytes
	}
	return p.bytes[:rpc.Whole(p.bytes)]
}

// readCapture reads a piece of a captured stream: at most some bytes, from the
// first that is kept at or after a place. A stream of which nothing was captured
// yet is empty.
func readCapture(dir *os.File, s capture.Stream, place, most int64) (piece, error) {
	none := piece{from: place}
	r, err := capture.Open(dir, s)
	if errors.Is(err, fs.ErrNotExist) {
		if place > 0 {
			return none, &capture.CursorError{Stream: s, Offset: place}
		}
		return none, nil
	}
	if err != nil {
		return none, err
	}
	defer func() { _ = r.Close() }()
	size, closed, err := r.Size()
	if err != nil {
		return none, err
	}
	b := make([]byte, max(min(most, size-place), 1))
	n, from, gap := 0, place, false
	for n < len(b) {
		got, at, err := r.ReadAt(b[n:], from+int64(n))
		if err != nil && !errors.Is(err, io.EOF) {
			return none, err
		}
		if n == 0 {
			from = at
		}
		if gap = at != from+int64(n); gap || err != nil {
			break
		}
		n += got
	}
	end := from + int64(n)
	return piece{b[:n], from, end < size, closed && end >= size, gap}, nil
}
