package serve

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/launch"
)

// start is one that was asked for, until its job is forgotten.
type start struct {
	token, owner string
	cancel       context.CancelFunc
	// done is closed when it has come to something; job is then its job, and
	// nil when nothing of it runs. joined is true for a job that was there
	// before.
	done   chan struct{}
	job    *job
	joined bool
}

// errAborted is the answer to a start that was given up.
func errAborted(rep *unit.Report) *Error {
	e := fail(CodeAborted, KindAborted, "cannot start the job: the start was aborted")
	if rep != nil {
		e.Data.Report, e.Data.Name = rep, string(rep.Name)
	}
	return e
}

// begin notes a start before the next request is read, so that one which ends
// it finds it.
func (c *call) begin(p *StartParams) (*start, *unit.Spec, *Error) {
	spec, fault := c.s.spec(p)
	if fault != nil {
		return nil, nil, fault
	}
	st := &start{token: p.Token, owner: p.Owner, cancel: c.cancel, done: make(chan struct{})}
	return st, spec, c.s.note(st)
}

// note remembers a start, unless its token says that there shall be none. The end
// aborts all that were noted before it.
func (s *Server) note(st *start) *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return errEnding()
	}
	if st.token != "" {
		if s.tokens[st.token] != nil {
			return fail(CodeExists, KindExists, "cannot start the job: its token is that of another start").field("token")
		}
		if s.wasRefused(st.token, time.Now()) {
			return errAborted(nil)
		}
		s.tokens[st.token] = st
	}
	s.starts[st] = struct{}{}
	return nil
}

// ended notes what a start came to.
func (s *Server) ended(st *start, j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st.job = j
	delete(s.starts, st)
	switch {
	case st.token == "":
	case j == nil || j.dropped:
		delete(s.tokens, st.token)
	default:
		j.tokens = append(j.tokens, st.token)
	}
	close(st.done)
}

func (c *call) start() func() {
	var p StartParams
	if !c.params(&p) {
		return nil
	}
	st, spec, fault := c.begin(&p)
	if fault != nil {
		c.fail(fault)
		return nil
	}
	return func() {
		if j := c.launch(&p, spec, st); j != nil {
			c.begun(j, st)
		}
	}
}

// begun answers a job.start, and tells of the job.
func (c *call) begun(j *job, st *start) {
	rep := j.report()
	if st.joined {
		c.answer(j.box, &StartResult{j.name, true, rep})
		j.track()
		return
	}
	c.answer(j.box, &StartResult{j.name, false, rep})
	j.begin()
}

// begin tells of a job that was started, and stays with it.
func (j *job) begin() {
	rep := j.report()
	j.box.tell(&Started{Name: j.name, Owner: j.owner, Token: j.token, Isolation: string(rep.Isolation), PID: int(rep.PID), StartedAt: rep.StartedAt}, false)
	if j.out != nil {
		j.out.start()
	}
	if j.tail != nil {
		j.tail.begin()
	}
	j.once.Do(func() { close(j.begun) })
}

// launch starts the job, and answers when that fails: then it returns nil. The
// job waits to be begun.
func (c *call) launch(p *StartParams, spec *unit.Spec, st *start) *job {
	j, joined, err := c.s.launch(c.ctx, p, spec)
	c.s.reached(startOver)
	st.joined = joined
	if err != nil {
		c.s.ended(st, nil)
		var unknown *unit.UnknownOutcomeError
		if c.ctx.Err() != nil && !errors.As(err, &unknown) {
			err = errAborted(nil)
		}
		c.fail(startError(err))
		return nil
	}
	c.s.ended(st, j)
	if c.ctx.Err() == nil {
		return j
	}
	if joined {
		j.track() // it is known here now, for all who ask for it
		c.fail(errAborted(nil))
		return nil
	}
	// It was aborted and runs all the same: who asked gets to know of its end.
	j.begin()
	rep, _ := j.stop(context.Background(), j.grace, false)
	c.fail(errAborted(&rep))
	return nil
}

// launch starts a job, once there is room for it.
func (s *Server) launch(ctx context.Context, p *StartParams, spec *unit.Spec) (j *job, joined bool, err error) {
	if err := s.gate.enter(ctx); err != nil {
		return nil, false, err
	}
	defer func() {
		if err != nil || joined {
			s.gate.leave()
		}
	}()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if err := s.locate(p, spec); err != nil {
		return nil, false, err
	}
	ends, err := s.open(p)
	defer ends.closeJobs()
	if err != nil {
		return nil, false, err
	}
	h, err := s.l.Start(ctx, spec, ends.stdio)
	if err != nil {
		ends.closeOwn()
		return nil, false, err
	}
	if h.Joined() {
		ends.closeOwn()
		j, err := s.join(h)
		return j, true, err
	}
	return s.adopt(h, p, ends), false, nil
}

// adopt makes a job of what was started.
func (s *Server) adopt(h *launch.Job, p *StartParams, ends *ends) *job {
	j := s.newJob(h, h.Begun())
	j.mine, j.token, j.promotable = true, p.Token, p.Promotable
	if ends.out != nil {
		j.out = ends.out
		o := j.out
		o.name, o.closed = j.name, make(chan struct{})
		o.changed, o.ended = func() { j.box.poke() }, j.streamsClosed
		if p.Output.OnMax == "stop" {
			o.exceeded = j.overSized
		}
		j.box = s.w.box(o)
	} else if p.Output.Follow {
		j.follow(p.Output.Encoding, capture.Cursor{})
	}
	if j.box == nil {
		j.box = s.w.box(nil)
	}
	if ends.in != nil {
		j.in = newInput(ends.in)
	}
	s.remember(j)
	go func() {
		<-j.begun
		j.keep(h)
	}()
	return j
}

// follow tells of captured output. Where that cannot be done there is still
// job.output.
func (j *job) follow(encoding string, at capture.Cursor) {
	dir, err := j.s.l.OutputDir(j.name)
	if err != nil {
		return
	}
	t, err := newTail(dir, j.name, encoding, at)
	if err != nil {
		return
	}
	j.tail, j.box = t, j.s.w.box(t)
	t.changed = func() { j.box.poke() }
}

// remember makes the job known by its name, instead of a settled one that had
// it before.
func (s *Server) remember(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[j.name] = j
}

// join is the job of a key that was there before.
func (s *Server) join(h *launch.Job) (*job, error) {
	if j := s.find(h.Name()); j != nil && !j.over() {
		h.Close()
		return j, nil
	}
	return s.watch(h, false, "", capture.Cursor{})
}
