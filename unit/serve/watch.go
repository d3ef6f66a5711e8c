package serve

import (
	"context"
	"errors"

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
				facts := c.s.remembered(name).known(seen)
				r.Jobs = append(r.Jobs, JobResult{name, facts, seen.Report})
			}
		}
		c.answer(nil, r)
	})
}
