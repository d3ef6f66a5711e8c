package serve

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (c *call) run() func() {
	var p RunParams
	if !c.params(&p) {
		return nil
	}
	after, fault := milliseconds("background_after_ms", p.BackgroundAfterMS)
	if fault == nil && after > 0 {
		if p.Lifetime != "" && p.Lifetime != string(unit.LifetimeCall) {
			fault = wrong("background_after_ms", p.BackgroundAfterMS, "the job's lifetime is "+launch.Quote(p.Lifetime)+": it goes on by itself")
		}
		p.Promotable = true
	}
	var st *start
	var spec *unit.Spec
	if fault == nil {
		st, spec, fault = c.begin(&p.StartParams)
	}
	if fault != nil {
		c.fail(fault)
		return nil
	}
	return func() {
		j := c.launch(&p.StartParams, spec, st)
		if j == nil {
			return
		}
		if st.joined {
			j.track()
		} else {
			j.begin()
		}
		c.await(j, after, st.joined)
	}
}

// await waits for the end of a job, of its main process alone where others stay
// by request, or for the time after which it goes on without the request, if it
// may. Cancelling stops it, but for one that another start had begun; the end of the
// server stops none that outlives it.
func (c *call) await(j *job, after time.Duration, joined bool) {
	var late <-chan time.Time
	if after > 0 {
		timer := time.NewTimer(after)
		defer timer.Stop()
		late = timer.C
	}
	r := &RunResult{Name: j.name}
	for waiting := true; waiting; {
		select {
		case <-j.settled:
			waiting = false
		case <-j.kept:
			c.leftBehind(j, r)
			return
		case <-late:
			late = nil
			if rep, err := j.promoted(); err == nil && !j.over() {
				r.Background, r.Report, r.Facts = true, rep, j.facts()
				c.answer(j.box, r)
				return
			}
			// It has ended, is being stopped, or ends with who started it.
		case <-c.ctx.Done():
			if r.Cancelled = true; !joined {
				sparing := errors.Is(context.Cause(c.ctx), errEnded)
				_, _ = j.stop(context.Background(), j.grace, sparing) // the report says what came of it
			}
			waiting = false
		}
	}
	r.Report, r.Facts = j.report(), j.facts()
	c.reply(j.box, r, j.over())
}

// leftBehind answers for a job of which something stays, behind the output that
// was written by then.
func (c *call) leftBehind(j *job, r *RunResult) {
	if j.out != nil {
		j.out.catchUp(drainTime)
	}
	r.Report, r.Facts = j.report(), j.facts()
	c.answer(j.box, r)
}

// promoted detaches the job, unless it goes on by itself. One that was not started
// as promotable ends with who started it.
func (j *job) promoted() (unit.Report, error) {
	switch {
	case !j.promotable && j.isDetached():
		return j.report(), nil
	case !j.promotable:
		return unit.Report{}, fail(CodeNotPromotable, KindNotPromotable, "cannot promote job "+j.name+": it was not started as promotable", "start it with promotable, or with lifetime detached")
	}
	o := &order{promote: true, answer: make(chan outcome, 1)}
	if !j.give(context.Background(), o) {
		return unit.Report{}, &unit.EndedError{Op: "promote", Name: j.name}
	}
	r := <-o.answer
	if r.final {
		return r.rep, &unit.EndedError{Op: "promote", Name: j.name}
	}
	return r.rep, r.err
}

func (c *call) promote() func() {
	var p NameParams
	if !c.params(&p) {
		return nil
	}
	return func() {
		j := c.s.find(p.Name)
		if j == nil {
			c.fail(c.unknown(p.Name))
			return
		}
		if _, err := j.promoted(); err != nil && !j.isDetached() {
			c.fail(err)
			return
		}
		c.answer(j.box, &JobResult{j.name, j.facts(), j.report()})
	}
}

// isDetached is true for a job that outlives the server.
func (j *job) isDetached() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.detached
}

// unknown is the error for a job that this server neither started nor tracks.
func (c *call) unknown(name string) error {
	if _, _, err := c.s.look(c.ctx, name); err != nil {
		return err
	}
	return fail(CodeNotFound, KindNotFound, "cannot find job "+name+" among those of this server: it is on record", "job.track follows it")
}
