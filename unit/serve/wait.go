package serve

import (
	"context"
	"time"

	"github.com/unitward/unitward/unit/launch"
)

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
	if ctx.Err() != nil && !factsOf(&rep).has(p.For) {
		// Its time may have been too short to see anything.
		if seen, _, lerr := c.s.look(context.Background(), p.Name); lerr == nil || rep.Schema == "" {
			rep, err = seen, lerr
		}
	}
	if rep.Schema == "" {
		c.fail(err)
		return
	}
	r := &WaitResult{Name: p.Name, Report: rep, Facts: factsOf(&rep)}
	r.Reached = r.Facts.has(p.For)
	c.waited(ctx, r, nil)
}
