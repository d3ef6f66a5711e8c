package serve

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
)

func (c *call) track() func() {
	var p TrackParams
	if !c.params(&p) {
		return nil
	}
	at, fault := cursor(p.Cursor)
	if p.Encoding == "" {
		p.Encoding = rpc.EncodingText
	}
	if fault == nil {
		fault = chosen("encoding", p.Encoding, rpc.EncodingText, rpc.EncodingBase64)
	}
	if fault != nil {
		c.fail(fault)
		return nil
	}
	return func() {
		j := c.s.find(p.Name)
		if j != nil {
			c.answer(j.box, &JobResult{j.name, j.facts(), j.report()})
			return
		}
		h, err := c.s.l.Open(c.ctx, p.Name)
		if err != nil {
			c.fail(err)
			return
		}
		if j, err = c.s.watch(h, p.Follow, p.Encoding, at); err != nil {
			c.fail(err)
			return
		}
		rep := j.report()
		c.answer(j.box, &JobResult{j.name, factsOf(&rep), rep})
		j.track()
	}
}

func cursor(text string) (capture.Cursor, *Error) {
	if text == "" {
		return capture.Cursor{}, nil
	}
	at, err := capture.ParseCursor(text)
	if err != nil {
		return at, asError(err)
	}
	return at, nil
}

// watch makes a job of one that this server did not start, which waits to be
// tracked. One of that name that came meanwhile is returned instead.
func (s *Server) watch(h *launch.Job, follow bool, encoding string, at capture.Cursor) (*job, error) {
	rep, err := h.Look(context.Background())
	if rep.Schema == "" {
		h.Close()
		return nil, err
	}
	j := s.newJob(h, rep)
	if follow {
		j.follow(encoding, at)
	}
	if j.box == nil {
		j.box = s.w.box(nil)
	}
	s.reached(aboutToWatch)
	s.mu.Lock()
	if other := s.jobs[j.name]; other != nil && !other.over() {
		s.mu.Unlock()
		if j.tail != nil {
			j.tail.discard()
		}
		h.Close()
		return other, nil
	}
	s.jobs[j.name] = j
	s.mu.Unlock()
	go func() {
		<-j.begun
		j.keep(h)
	}()
	return j, nil
}

// track begins to tell of a job that this server did not start.
func (j *job) track() {
	if j.mine {
		return
	}
	j.once.Do(func() {
		if j.tail != nil {
			j.tail.begin()
		}
		close(j.begun)
	})
}

func (c *call) status() func() {
	var p NameParams
	if !c.params(&p) {
		return nil
	}
	return func() {
		rep, facts, err := c.s.look(c.ctx, p.Name)
		if err != nil {
			c.fail(err)
			return
		}
		c.answer(c.s.boxOf(p.Name), &JobResult{p.Name, facts, rep})
	}
}

func (c *call) list() func() {
	var p ListParams
	if !c.params(&p) {
		return nil
	}
	return c.large(func() {
		found, err := c.s.l.Names()
		if err != nil {
			c.fail(err)
			return
		}
		filter := launch.Filter{Owner: p.Owner, All: p.All, Orphans: p.Orphans}
		r := &ListResult{Jobs: []JobResult{}, Bad: []BadRecord{}}
		for _, name := range found {
			if c.ctx.Err() != nil {
				c.fail(c.ctx.Err())
				return
			}
			seen, err := c.s.l.Glance(c.ctx, name, filter.Wants)
			var gone *unit.NotFoundError
			switch {
			case errors.As(err, &gone): // it was dropped meanwhile
			case seen == nil && err != nil:
				r.Bad = append(r.Bad, BadRecord{name, *asError(err)})
			case seen != nil && filter.Shows(seen):
				facts := c.s.find(name).known(&seen.Report)
				r.Jobs = append(r.Jobs, JobResult{name, facts, seen.Report})
			}
		}
		c.answer(nil, r)
	})
}

func (c *call) wait() func() {
	var p WaitParams
	if !c.params(&p) {
		return nil
	}
	if p.For == "" {
		p.For = "settled"
	}
	fault := chosen("for", p.For, "exit", "streams", "tree", "settled")
	within := time.Duration(-1)
	if fault == nil && p.TimeoutMS != nil {
		within, fault = milliseconds("timeout_ms", *p.TimeoutMS)
	}
	if fault != nil {
		c.fail(fault)
		return nil
	}
	return func() {
		ctx, cancel := c.ctx, context.CancelFunc(func() {})
		if within >= 0 {
			ctx, cancel = context.WithTimeout(ctx, within)
		}
		defer cancel()
		if j := c.s.find(p.Name); j != nil {
			c.waitFor(ctx, j, p.For)
			return
		}
		c.waitForeign(ctx, p)
	}
}

// has is true when a fact is established.
func (f Facts) has(name string) bool {
	switch name {
	case "exit":
		return f.Exit
	case "streams":
		return f.Streams
	case "tree":
		return f.Tree
	}
	return f.Settled
}

// waitFor waits for a fact of a job that has a keeper here.
func (c *call) waitFor(ctx context.Context, j *job, fact string) {
	r := &WaitResult{Name: j.name}
	for {
		over := j.over() // before the facts, which come first
		facts, changed := j.next()
		if r.Facts = facts; facts.has(fact) {
			r.Reached = true
			break
		}
		if over {
			break
		}
		select {
		case <-changed:
			continue
		case <-j.settled: // after the last change, of which this may have been told before
			continue
		case <-ctx.Done():
		}
		break
	}
	r.Report = j.report()
	if !j.over() && !r.Reached {
		// What is there now, not what was when somebody last looked.
		if rep, facts, err := c.s.look(context.Background(), j.name); err == nil {
			r.Report, r.Facts = rep, facts
		}
	}
	c.waited(ctx, r, j.box)
}

// waited answers a wait.
func (c *call) waited(ctx context.Context, r *WaitResult, b *box) {
	if !r.Reached {
		r.Cancelled = c.ctx.Err() != nil
		r.TimedOut = !r.Cancelled && ctx.Err() != nil
	}
	c.reply(b, r, r.Facts.Settled)
}

// waitForeign waits for a fact of a job that has none.
func (c *call) waitForeign(ctx context.Context, p WaitParams) {
	h, err := c.s.l.Open(ctx, p.Name)
	if err != nil {
		c.fail(err)
		return
	}
	defer h.Close()
	fact := launch.FactSettled // streams close with the last process, at the latest
	if p.For == "exit" || p.For == "tree" {
		fact = launch.Fact(p.For)
	}
	rep, err := h.Wait(ctx, fact)
	if rep.Schema == "" {
		if ctx.Err() != nil {
			rep, _, err = c.s.look(context.Background(), p.Name)
		}
		if rep.Schema == "" {
			c.fail(err)
			return
		}
	}
	r := &WaitResult{Name: p.Name, Report: rep, Facts: factsOf(&rep)}
	r.Reached = r.Facts.has(p.For)
	c.waited(ctx, r, nil)
}

func (c *call) output() func() {
	var q OutputQuery
	if !c.params(&q) {
		return nil
	}
	at, fault := cursor(q.Cursor)
	switch {
	case fault != nil:
	case !oneOf(q.Stream, "", string(capture.Stdout), string(capture.Stderr)):
		fault = wrong("stream", q.Stream, "stdout or stderr is expected")
	case !oneOf(q.Encoding, "", rpc.EncodingText, rpc.EncodingBase64):
		fault = wrong("encoding", q.Encoding, "text or base64 is expected")
	case q.MaxBytes < 0:
		fault = wrong("max_bytes", q.MaxBytes, "a size is expected")
	}
	if fault != nil {
		c.fail(fault)
		return nil
	}
	if q.MaxBytes == 0 {
		q.MaxBytes = 256 << 10
	}
	q.MaxBytes = min(max(q.MaxBytes, 4), 4<<20)
	return c.large(func() {
		r, err := c.s.output(c.ctx, &q, at)
		if err != nil {
			c.fail(err)
			return
		}
		c.answer(nil, r)
	})
}

// output reads what is there, of a pipe's ring or of a capture.
func (s *Server) output(ctx context.Context, q *OutputQuery, at capture.Cursor) (*OutputResult, error) {
	j := s.find(q.Name)
	if j != nil && j.out != nil {
		r, err := j.out.read(q, at)
		if err == nil {
			r.Facts = j.facts()
		}
		return r, err
	}
	rep, facts, err := s.look(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	dir, err := s.l.OutputDir(q.Name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	r := &OutputResult{Name: q.Name, Chunks: []Chunk{}, Ended: true, Facts: facts}
	encoding := q.Encoding
	if encoding == "" {
		encoding = rpc.EncodingText
		if j != nil && j.tail != nil {
			encoding = j.tail.encoding
		}
	}
	for _, name := range streamNames {
		if q.Stream != "" && q.Stream != string(name) {
			continue
		}
		place := at.Offset(name)
		p, err := readCapture(dir, name, place, q.MaxBytes)
		if err != nil {
			return nil, err
		}
		b, from, last := p.bytes, p.from, p.last || rep.Tree.Empty && len(p.bytes) == 0
		if encoding == rpc.EncodingText && !last {
			b = b[:rpc.Whole(b)]
		}
		if len(b) > 0 || from > place {
			r.Chunks = append(r.Chunks, Chunk{
				Stream: string(name), Offset: from, Bytes: len(b), Dropped: from - place, Encoding: encoding, Data: rpc.Encode(b, encoding),
			})
		}
		at = at.With(name, from+int64(len(b)))
		r.More = r.More || p.more
		r.Ended = r.Ended && last
	}
	r.Cursor = at.String()
	return r, nil
}
