package serve

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// maxChunk is how many bytes of output one message carries at most.
const maxChunk = 64 << 10

// catchUpPause is how often is looked whether the client was told.
const catchUpPause = 2 * time.Millisecond

// Why output was dropped.
const (
	droppedSlow  = "slow"
	droppedLimit = "limit"
)

// piped is the output of a job that the server reads itself, and tells.
type piped struct {
	encoding string
	// gather reads it.
	gather *gather
	// max is how much both streams may have together; less than 0 is any.
	max int64
	// name and changed are the job's.
	name    string
	changed func()
	// ended is called once, when every stream is closed.
	ended func()
	// exceeded is called once, when there is more than max.
	exceeded func()

	mu      sync.Mutex
	streams []*stream
	seen    int64
	over    bool
	turn    int
	// piece is where output is put that is told next, while there is some.
	piece []byte
	// closed is closed when every stream is. Of one that was given up it is not
	// known, and open counts it to the end.
	closed chan struct{}
	open   int
}

// add is for a pipe that will be read: what cannot be is said before the start.
func (p *piped) add(name string, fd int, pool *pool) error {
	s := &stream{name: name, out: p, fd: fd, ring: ring{pool: pool, most: maxRing}}
	p.streams = append(p.streams, s)
	p.open++
	return p.gather.add(s)
}

// start begins to read.
func (p *piped) start() {
	for _, s := range p.streams {
		if p.gather.begin(s) != nil {
			p.finish(s, false)
		}
	}
}

// readFrom takes what a stream has, once.
func (p *piped) readFrom(s *stream, buf []byte) {
	if !p.readOnce(s, buf) {
		p.finish(s, true)
	}
}

// readOnce is false when nothing will come any more.
func (p *piped) readOnce(s *stream, buf []byte) bool {
	s.reading.Lock()
	defer s.reading.Unlock()
	if s.fd < 0 {
		return true // it was given up meanwhile, by who finishes it
	}
	for {
		switch n, err := unix.Read(s.fd, buf); {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return true
		case err != nil || n <= 0:
			return false
		default:
			p.take(s, buf[:n])
			return true
		}
	}
}

// take adds what was read.
func (p *piped) take(s *stream, b []byte) {
	p.mu.Lock()
	fits := int64(len(b))
	if p.max >= 0 {
		fits = min(fits, max(p.max-p.seen, 0))
	}
	p.seen += int64(len(b))
	s.ring.write(b[:fits])
	s.cut += int64(len(b)) - fits
	first := !p.over && s.cut > 0
	p.over = p.over || first
	p.mu.Unlock()
	if first && p.exceeded != nil {
		p.exceeded()
	}
	if fits > 0 || first {
		p.changed()
	}
}

// finish ends a stream, once, which is closed by all who wrote to it, or is given
// up.
func (p *piped) finish(s *stream, closed bool) {
	if !s.close(p.gather) {
		return
	}
	p.mu.Lock()
	s.ended = true
	if closed {
		p.open--
	}
	last := p.open == 0
	p.mu.Unlock()
	p.changed()
	if last {
		close(p.closed)
		p.ended()
	}
}

// drain waits until every stream is closed, but not for ever: a process that left
// the unit can hold one, which is given up then.
func (p *piped) drain(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.closed:
		return
	case <-timer.C:
	}
	for _, s := range p.streams {
		p.finish(s, false)
	}
}

// catchUp waits, for some time at most, until all was told that is written by
// now. Those who write on do not hold it up.
func (p *piped) catchUp(d time.Duration) {
	tick := time.NewTicker(catchUpPause)
	defer tick.Stop()
	late := time.NewTimer(d)
	defer late.Stop()
	for _, s := range p.streams {
		place := s.written(p)
		for !p.toldTo(s, place) {
			select {
			case <-tick.C:
			case <-late.C:
				return
			}
		}
	}
}

// toldTo is true when a stream was told up to a place, or up to where there was
// too much.
func (p *piped) toldTo(s *stream, place int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.sent >= place || s.cut > 0 && s.sent == s.ring.end
}

// next is the next message for the client.
func (p *piped) next() event {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range p.streams {
		s := p.streams[p.turn%len(p.streams)]
		p.turn++
		if m := p.of(s); m != nil {
			return m
		}
	}
	p.piece = nil
	return nil
}

func (p *piped) of(s *stream) event {
	if s.sent < s.ring.begin {
		m := &Dropped{Name: p.name, Stream: s.name, Offset: s.sent, Bytes: s.ring.begin - s.sent, Why: droppedSlow}
		s.sent, s.lost = s.ring.begin, s.lost+m.Bytes
		return m
	}
	want := int(min(s.ring.end-s.sent, maxChunk))
	if want > len(p.piece) {
		p.piece = make([]byte, want)
	}
	b := p.piece[:want]
	n, _ := s.ring.read(b, s.sent)
	if b = b[:n]; p.encoding == rpc.EncodingText && !s.atEnd(s.sent+int64(n)) {
		b = b[:rpc.Whole(b)]
	}
	if len(b) > 0 {
		m := &Output{Name: p.name, Chunk: Chunk{
			Stream: s.name, Offset: s.sent, Bytes: len(b), Encoding: p.encoding, Data: rpc.Encode(b, p.encoding),
		}}
		s.sent += int64(len(b))
		return m
	}
	if s.cut > s.cutTold && (s.ended || s.cutTold == 0) {
		m := &Dropped{Name: p.name, Stream: s.name, Offset: s.ring.end + s.cutTold, Bytes: s.cut - s.cutTold, Why: droppedLimit}
		s.cutTold = s.cut
		return m
	}
	return nil
}

// read answers a job.output.
func (p *piped) read(q *OutputQuery, at capture.Cursor) (*OutputResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &OutputResult{Name: q.Name, Chunks: []Chunk{}, Ended: true}
	encoding := p.encoding
	if q.Encoding != "" {
		encoding = q.Encoding
	}
	for _, s := range p.streams {
		if q.Stream != "" && q.Stream != s.name {
			continue
		}
		place := at.Offset(capture.Stream(s.name))
		if place > s.ring.end {
			return nil, &capture.CursorError{Stream: capture.Stream(s.name), Offset: place, End: s.ring.end}
		}
		b := make([]byte, min(s.ring.end-max(place, s.ring.begin), q.MaxBytes))
		n, from := s.ring.read(b, place)
		r.More = r.More || n > 0 && from+int64(n) < s.ring.end
		if b = b[:n]; encoding == rpc.EncodingText && !s.atEnd(from+int64(n)) {
			b = b[:rpc.Whole(b)]
		}
		if len(b) > 0 || from > place {
			r.Chunks = append(r.Chunks, Chunk{
				Stream: s.name, Offset: from, Bytes: len(b), Dropped: from - place, Encoding: encoding, Data: rpc.Encode(b, encoding),
			})
		}
		place = from + int64(len(b))
		at = at.With(capture.Stream(s.name), place)
		r.Ended = r.Ended && s.ended && place == s.ring.end
	}
	r.Cursor = at.String()
	return r, nil
}

// tell adds to a report what is known of the streams.
func (p *piped) tell(rep *unit.Report) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sizes [2]int64
	var dropped int64
	for i, s := range p.streams {
		sizes[i] = s.ring.end + s.cut
		dropped += s.cut + s.lost + max(s.ring.begin-s.sent, 0)
	}
	f := &rep.Streams
	f.StdoutBytes, f.DroppedBytes = &sizes[0], &dropped
	if f.StderrBytes = &sizes[1]; p.open == 0 {
		f.State = "closed"
	} else if f.State == "closed" {
		f.State = "held"
	}
}

// settle gives back memory that is needed no more.
func (p *piped) settle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		s.ring.settle()
	}
}

// forgotten is true when there is nothing to give back.
func (p *piped) forgotten() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		if len(s.ring.buf) > 0 {
			return false
		}
	}
	return true
}

// forget gives back all of it. What was not told by then never will be.
func (p *piped) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.streams {
		s.ring.drop()
	}
}
