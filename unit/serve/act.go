package serve

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (c *call) stop() func() {
	var p StopParams
	if !c.params(&p) {
		return nil
	}
	grace, fault := graceOf(p.GraceMS)
	if fault != nil {
		c.fail(fault)
		return nil
	}
	return func() {
		rep, facts, err := c.s.stop(c.ctx, p.Name, grace, false)
		if err != nil {
			c.fail(err)
			return
		}
		c.answer(c.s.boxOf(p.Name), &StopResult{p.Name, rep.Confirmed, facts, rep})
	}
}

// graceOf is a grace that was asked for; nil for the job's own.
func graceOf(ms *int64) (*time.Duration, *Error) {
	if ms == nil {
		return nil, nil
	}
	d, fault := milliseconds("grace_ms", *ms)
	return &d, fault
}

// stop ends a job, of this server or not; a nil grace is the job's own. When ctx
// is done it answers with the present state: the stop goes on, as long as the
// server does. A sparing one leaves a job of this server alone that has been
// detached (errSpared).
func (s *Server) stop(ctx context.Context, name string, grace *time.Duration, sparing bool) (unit.Report, Facts, error) {
	if j := s.find(name); j != nil {
		d := j.grace
		if grace != nil {
			d = *grace
		}
		rep, err := j.stop(ctx, d, sparing)
		if rep.Schema != "" && (err == nil || ctx.Err() != nil || isEnded(err)) {
			err = nil
		}
		facts := factsOf(&rep)
		if j.over() {
			facts = j.facts()
		}
		return rep, facts, err
	}
	h, err := s.l.Open(ctx, name)
	if err != nil {
		return unit.Report{}, Facts{}, err
	}
	d := h.Record().Grace
	if grace != nil {
		d = *grace
	}
	stopped := make(chan outcome, 1)
	s.tasks.Go(func() {
		defer h.Close()
		rep, err := h.Stop(context.Background(), d)
		stopped <- outcome{rep: rep, err: err}
	})
	select {
	case o := <-stopped:
		if o.rep.Schema != "" && (o.rep.Confirmed || isEnded(o.err)) {
			o.err = nil
		}
		return o.rep, factsOf(&o.rep), o.err
	case <-ctx.Done():
		return s.look(context.Background(), name)
	}
}

// boxOf is where the answers about a job go, behind what was told of it before;
// nil is no job's.
func (s *Server) boxOf(name string) *box {
	if j := s.find(name); j != nil {
		return j.box
	}
	return nil
}

func (c *call) signal() func() {
	var p SignalParams
	if !c.params(&p) {
		return nil
	}
	n, err := launch.KillSignal(p.Signal)
	who := unit.Who(p.Who)
	if who == "" {
		who = unit.WhoMain
	}
	switch {
	case err != nil:
		c.fail(wrong("signal", p.Signal, err.Error(), hints(err)...))
		return nil
	case who != unit.WhoMain && who != unit.WhoAll:
		c.fail(wrong("who", p.Who, "main or all is expected"))
		return nil
	}
	return c.act(p.Name, func(h *launch.Job) error { return h.Signal(c.ctx, who, n) })
}

func (c *call) pause() func() { return c.named(func(h *launch.Job) error { return h.Pause(c.ctx) }) }

func (c *call) resume() func() { return c.named(func(h *launch.Job) error { return h.Resume(c.ctx) }) }

func (c *call) named(do func(*launch.Job) error) func() {
	var p NameParams
	if !c.params(&p) {
		return nil
	}
	return c.act(p.Name, do)
}

// act does something to a job as another process would: its keeper goes on
// waiting.
func (c *call) act(name string, do func(*launch.Job) error) func() {
	return func() {
		h, err := c.s.l.Open(c.ctx, name)
		if err != nil {
			c.fail(err)
			return
		}
		defer h.Close()
		if err := do(h); err != nil {
			c.fail(err)
			return
		}
		c.answer(c.s.boxOf(name), &Done{name})
	}
}

func (c *call) write() func() {
	var p WriteParams
	if !c.params(&p) {
		return nil
	}
	j, fault := c.writable(p.Name)
	if fault != nil {
		c.fail(fault)
		return nil
	}
	buffered, fault := j.in.write([]byte(p.Data))
	if fault != nil {
		fault.Data.Name = p.Name
		c.fail(fault)
		return nil
	}
	c.answer(j.box, &WriteResult{p.Name, len(p.Data), buffered})
	return nil
}

func (c *call) closeStdin() func() {
	var p NameParams
	if !c.params(&p) {
		return nil
	}
	j, fault := c.writable(p.Name)
	if fault != nil {
		c.fail(fault)
		return nil
	}
	j.in.end()
	c.answer(j.box, &Done{p.Name})
	return nil
}

// writable is a job whose standard input is ours.
func (c *call) writable(name string) (*job, *Error) {
	j := c.s.find(name)
	switch {
	case j == nil:
		return nil, asError(c.unknown(name))
	case j.in == nil:
		e := fail(CodeStdin, KindStdin, "cannot write to job "+name+": its standard input is not a pipe of this server", "start it with stdin pipe")
		e.Data.Name = name
		return nil, e
	}
	return j, nil
}

func (c *call) release() func() {
	var p NameParams
	if !c.params(&p) {
		return nil
	}
	return func() {
		j := c.s.find(p.Name)
		if j != nil && j.toldEnd() {
			<-j.settled // its client knows, and it is about to be over
		}
		if j != nil && !j.over() {
			c.fail(&launch.KeptError{Name: p.Name, State: j.report().State})
			return
		}
		h, err := c.s.l.Open(c.ctx, p.Name)
		if err == nil {
			err = h.Release(c.ctx)
			h.Close()
		}
		var none *unit.NotFoundError
		if j != nil && errors.As(err, &none) {
			err = nil // it has gone from there before
		}
		if err != nil {
			c.fail(err)
			return
		}
		if j != nil {
			c.s.release(j)
		}
		c.answer(nil, &Done{p.Name})
	}
}

// release forgets a settled job.
func (s *Server) release(j *job) {
	s.mu.Lock()
	for i, other := range s.retired {
		if other == j {
			s.drop(i)
			break
		}
	}
	s.mu.Unlock()
	forget([]*job{j})
}
