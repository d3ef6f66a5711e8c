package serve

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/unitward/unitward/unit"
)

func (c *call) stopOwner() func() {
	var p StopOwnerParams
	if !c.params(&p) {
		return nil
	}
	grace, fault := graceOf(p.GraceMS)
	if fault == nil && p.Owner == "" {
		fault = wrong("owner", p.Owner, "the label of an owner is expected")
	}
	if fault != nil {
		c.fail(fault)
		return nil
	}
	starts := c.s.abortAll(func(st *start) bool { return st.owner == p.Owner })
	return func() {
		r := &StopOwnerResult{Owner: p.Owner}
		var ran []string // though aborted: whoever began one ends it, and may have by now
		for _, st := range starts {
			switch <-st.done; {
			case st.job == nil:
				r.Aborted++
			case !st.joined:
				ran = append(ran, st.job.name)
			}
		}
		names, bad, err := c.s.owned(c.ctx, p.Owner)
		if err != nil {
			c.fail(err)
			return
		}
		names = append(names, ran...)
		slices.Sort(names)
		names = slices.Compact(names)
		r.Stopped, r.Unconfirmed, _ = c.s.stopAll(names, func(name string) (unit.Report, error) {
			rep, _, err := c.s.stop(c.ctx, name, grace, false)
			return rep, err
		})
		r.Unconfirmed = append(r.Unconfirmed, bad...)
		r.Confirmed = len(r.Unconfirmed) == 0
		c.answer(nil, r)
	}
}

// abortAll gives up starts that are under way, and returns them.
func (s *Server) abortAll(which func(*start) bool) (starts []*start) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.starts {
		if which(st) {
			st.cancel()
			starts = append(starts, st)
		}
	}
	return starts
}

// owned are the jobs of an owner that are not settled: those of this server and
// those on record.
func (s *Server) owned(ctx context.Context, owner string) (names []string, bad []Unconfirmed, err error) {
	live := map[string]bool{}
	s.mu.Lock()
	for name, j := range s.jobs {
		if j.owner == owner && !j.over() {
			live[name] = true
		}
	}
	s.mu.Unlock()
	found, err := s.l.Names()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range found {
		seen, err := s.l.Glance(ctx, name, func(rec *unit.Record) bool { return rec.Owner == owner && rec.Sealed == nil })
		var gone *unit.NotFoundError
		switch {
		case errors.As(err, &gone):
		case seen != nil && seen.Report.State != unit.StateSettled:
			live[name] = true
		case seen == nil && err != nil:
			// Whose job it is cannot be read: it may be the owner's.
			bad = append(bad, Unconfirmed{Name: name, Error: asError(err)})
		}
	}
	for name := range live {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, bad, nil
}

// stopAll stops jobs, all at once. What cannot be proven is said of each; of spared
// ones there is nothing to prove (errSpared).
func (s *Server) stopAll(names []string, stop func(name string) (unit.Report, error)) (stopped []string, unconfirmed []Unconfirmed, spared []string) {
	results := make([]Unconfirmed, len(names))
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			rep, err := stop(name)
			errs[i] = err
			if results[i].Name = name; rep.Schema != "" {
				results[i].Report = &rep
			}
			if err != nil {
				results[i].Error = asError(err)
			}
		})
	}
	all.Wait()
	stopped, unconfirmed = []string{}, []Unconfirmed{}
	for i, name := range names {
		switch {
		case results[i].Report != nil && results[i].Report.Confirmed:
			stopped = append(stopped, name)
		case errors.Is(errs[i], errSpared):
			spared = append(spared, name)
		default:
			unconfirmed = append(unconfirmed, results[i])
		}
	}
	return stopped, unconfirmed, spared
}
