package serve

import (
	"context"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// find is a job that is remembered; nil for none. A settled one of whose name there
// is a newer record, which another process has made, does not answer any more. Where
// its record is gone it does.
func (s *Server) find(name string) *job {
	j := s.remembered(name)
	if j == nil || !j.over() || !s.replaced(j) {
		return j
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[name] == j {
		delete(s.jobs, name)
	}
	return s.jobs[name]
}

// remembered is find where it does not matter whether another has the name by now.
func (s *Server) remembered(name string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[name]
}

// replaced is true when the record of a job's name is another's.
func (s *Server) replaced(j *job) (other bool) {
	_, _ = s.l.Glance(context.Background(), j.name, func(rec *unit.Record) bool {
		other = rec.Identity.Nonce != j.nonce
		return false // to read it is enough
	})
	return other
}

// look is what is known of a job now, remembered or on record.
func (s *Server) look(ctx context.Context, name string) (unit.Report, Facts, error) {
	j := s.find(name)
	if j != nil && j.over() {
		return j.report(), j.facts(), nil
	}
	seen, err := s.l.Glance(ctx, name, func(*unit.Record) bool { return true })
	if seen == nil {
		if j != nil {
			return j.report(), j.facts(), nil // its record is gone, and it is not
		}
		return unit.Report{}, Facts{}, err
	}
	facts := j.known(seen)
	return seen.Report, facts, nil
}

// known adds to a report that was made without the job's keeper what is known
// here; j may be nil, or another job that had the name before.
func (j *job) known(seen *launch.Sight) Facts {
	facts := factsOf(&seen.Report)
	if j == nil || j.nonce != seen.Record.Identity.Nonce {
		return facts
	}
	if j.out != nil {
		j.out.tell(&seen.Report)
		facts.Streams = seen.Report.Streams.State == "closed"
	}
	told := j.facts()
	return Facts{facts.Exit || told.Exit, facts.Streams || told.Streams, facts.Tree || told.Tree, facts.Settled}
}
