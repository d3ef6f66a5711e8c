package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
)

const (
	// maxReplies and maxReplyBytes are how much can wait to be written before
	// no further request is read.
	maxReplies    = 1024
	maxReplyBytes = 8 << 20
	// maxTogether is how much is written at once, but for a longer message.
	maxTogether = 64 << 10
)

// source is what of a job's output is still to be told. Its methods are called
// with the writer's lock released, by its goroutine alone.
type source interface {
	// next is the next message of output; nil is none now. It is asked again once
	// the box is told that there may be one.
	next() event
}

// event is a notification about a job.
type event interface {
	// stamp says of all facts whether they have been told, with this one.
	stamp(told *Facts)
}

// envelope is a message to the client.
type envelope struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

// waiting is a message that waits to be written.
type waiting struct {
	line []byte
	// event is what the line is made of once its turn comes; nil for a line
	// that is there.
	event event
	// last is true for what comes after all output that was there before it.
	last bool
}

// box is what waits to be written of one job, or of none.
type box struct {
	w      *writer
	queue  []waiting
	source source
	// facts are those that were told.
	facts Facts
	// ready is true while the box is in the writer's list; dirty when its
	// source may have something.
	ready, dirty bool
}

// writer writes messages, each a line, by one goroutine. Nobody waits for it
// who has something to write.
type writer struct {
	out io.Writer

	mu    sync.Mutex
	cond  *sync.Cond // for the goroutine, and for who waits for room
	ready []*box
	// buf is what goes out next.
	buf []byte
	// line is where the goroutine makes a message.
	line bytes.Buffer
	// count and bytes are of what waits.
	count, bytes int
	closed       bool
	err          error
	// final is the last message.
	final []byte
	// failed is closed when the client can be written to no more.
	failed chan struct{}
}

func newWriter(out io.Writer) *writer {
	w := &writer{out: out, failed: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	return w
}

func (w *writer) box(s source) *box { return &box{w: w, source: s} }

// put queues a message; last is for one that comes after the box's output.
func (b *box) put(e envelope, last bool) {
	e.Version = "2.0"
	b.queueUp(waiting{line: marshal(e), last: last})
}

// tell queues a notification.
func (b *box) tell(e event, last bool) { b.queueUp(waiting{event: e, last: last}) }

func (b *box) queueUp(next waiting) {
	w := b.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return
	}
	b.queue = append(b.queue, next)
	b.dirty = b.dirty || next.last // what is there by now comes before it
	w.count++
	w.bytes += len(next.line)
	b.wake()
}

// poke says that the box's source may have something.
func (b *box) poke() {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	b.dirty = true
	b.wake()
}

// wake is for who holds the lock.
func (b *box) wake() {
	if !b.ready {
		b.ready = true
		b.w.ready = append(b.w.ready, b)
		b.w.cond.Broadcast()
	}
}

func marshal(e envelope) []byte {
	var buf bytes.Buffer
	encode(&buf, e)
	return buf.Bytes()
}

// encode writes a message, which is a line, to an empty buffer.
func encode(buf *bytes.Buffer, e envelope) {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		// No type of the protocol can do that; a client is not left waiting.
		buf.Reset()
		_ = enc.Encode(envelope{Version: "2.0", ID: e.ID, Error: fail(CodeInternal, KindInternal, "cannot encode the message: "+err.Error())})
	}
}

// tell adds the message for an event to what goes out next. Much output is many
// messages: each is made in the same memory.
func (w *writer) tell(v event) {
	w.line.Reset()
	encode(&w.line, notification(v))
	w.buf = append(w.buf, w.line.Bytes()...)
	if w.line.Cap() > 4*maxTogether {
		w.line = bytes.Buffer{}
	}
}

// room waits while too much waits to be written; false is a writer that has
// failed.
func (w *writer) room() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && !w.closed && (w.count > maxReplies || w.bytes > maxReplyBytes) {
		w.cond.Wait()
	}
	return w.err == nil
}

// run writes until close, or until the client takes no more. What is there at a
// time goes out together.
func (w *writer) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if len(w.ready) == 0 || len(w.buf) >= maxTogether {
			w.flush()
		}
		for len(w.ready) == 0 && !w.closed {
			w.cond.Wait()
		}
		if len(w.ready) == 0 {
			w.buf = append(w.buf, w.final...)
			w.flush()
			return
		}
		b := w.ready[0]
		w.ready = w.ready[1:]
		w.turn(b)
	}
}

// turn writes one message of a box, and puts it back when it may have more.
func (w *writer) turn(b *box) {
	b.ready = false
	told := !b.asks() // all output that was there
	if len(b.queue) > 0 && (told || !b.queue[0].last) {
		next := b.queue[0]
		b.queue[0] = waiting{}
		if b.queue = b.queue[1:]; len(b.queue) == 0 {
			b.queue = nil
		}
		w.count--
		w.bytes -= len(next.line)
		if next.event != nil {
			next.event.stamp(&b.facts)
			w.tell(next.event)
		} else {
			w.buf = append(w.buf, next.line...)
		}
		w.cond.Broadcast()
	} else if b.asks() {
		b.dirty = false
		w.mu.Unlock()
		m := b.source.next()
		w.mu.Lock()
		if m != nil {
			b.dirty = true
			m.stamp(&b.facts)
			w.tell(m)
		}
	}
	if len(b.queue) > 0 || b.asks() {
		b.wake()
	}
}

// asks is true when the box's source is to be asked, for who holds the lock. Once
// the writer is closed that is what a message still waits for: such output has an
// end, that of a job which stays may have none.
func (b *box) asks() bool {
	return b.source != nil && b.dirty && (!b.w.closed || len(b.queue) > 0)
}

// flush writes what is to go out, for who holds the lock, which it gives up
// meanwhile.
func (w *writer) flush() {
	if w.err != nil {
		w.buf = nil
	}
	if len(w.buf) == 0 {
		return
	}
	buf := w.buf
	w.buf = nil
	w.mu.Unlock()
	_, err := w.out.Write(buf)
	w.mu.Lock()
	if cap(buf) <= 2*maxTogether {
		w.buf = buf[:0]
	}
	if err != nil && w.err == nil {
		w.err = err
		close(w.failed)
	}
}

// last has a message written when nothing else waits.
func (w *writer) last(e envelope) {
	line := marshal(e)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.final = line
}

// close ends the goroutine once all is written that waits.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.cond.Broadcast()
}

// notification is the message for what it tells.
func notification(v any) envelope {
	e := envelope{Version: "2.0", Params: v}
	switch v.(type) {
	case *Started:
		e.Method = NotifyStarted
	case *Output:
		e.Method = NotifyOutput
	case *Dropped:
		e.Method = NotifyDropped
	case *Exited:
		e.Method = NotifyExit
	case *StreamsClosed:
		e.Method = NotifyStreams
	case *TreeEmptied:
		e.Method = NotifyTree
	case *Settled:
		e.Method = NotifySettled
	case *Ended:
		e.Method = NotifyEnded
	}
	return e
}
