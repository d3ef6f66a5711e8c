package serve

import (
	"context"
	"sort"
	"sync/atomic"
	"time"

	"github.com/unitward/unitward/unit"
)

const (
	// proofTime is how long, after the longest grace, after each proof of the end of
	// one of its jobs and after whatever a manager says, the server stays for the next
	// proof. In the worst case that takes proofEach for each of them: a manager ends
	// them one after another, and can run a program for each before it tells of any;
	// 100 ms were not enough for a manager of 560 on a busy machine.
	proofTime = 5 * time.Second
	proofEach = 500 * time.Millisecond
	// farewellTime is how long it stays for a client that does not read.
	farewellTime = 5 * time.Second
	// startsTime bounds the wait for starts that are under way.
	startsTime = 30 * time.Second
)

// end stops what ends with the server and says what is left.
func (s *Server) end(why string, written <-chan struct{}) Ended {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	awaitStarts(s.abortAll(func(*start) bool { return true }), startsTime)
	s.awaitKept()
	ours, left, grace := s.mine()
	ctx, cancel := context.WithTimeout(context.Background(), grace+proofTime+time.Duration(len(ours))*proofEach)
	defer cancel()
	var proven atomic.Int64
	go giveUp(ctx, cancel, grace, func() time.Time { return latest(time.Unix(0, proven.Load()), s.l.HeardAt()) })
	e := Ended{Why: why}
	var spared []string
	e.Stopped, e.Unconfirmed, spared = s.stopAll(ours, func(name string) (unit.Report, error) {
		rep, _, err := s.stop(ctx, name, nil, true)
		if rep.Confirmed {
			proven.Store(time.Now().UnixNano())
		}
		return rep, err
	})
	e.Left = append(left, spared...) // their clients were told so, or will be
	sort.Strings(e.Left)
	e.Confirmed = len(e.Unconfirmed) == 0
	s.conclude(e)
	s.w.close()
	select {
	case <-written:
	case <-time.After(farewellTime):
	}
	return e
}

// giveUp cancels ctx when nothing has moved for proofTime, but not before the grace
// is over, too. moved is when something did last.
func giveUp(ctx context.Context, cancel func(), grace time.Duration, moved func() time.Time) {
	first := time.Now().Add(grace + proofTime)
	for {
		left := time.Until(latest(first, moved().Add(proofTime)))
		if left <= 0 {
			cancel()
			return
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// awaitStarts waits, for some time at most, until all starts have come to
// something: a manager may not answer, and then the lifetime holds what it started.
func awaitStarts(starts []*start, most time.Duration) {
	late := time.After(most)
	for _, st := range starts {
		select {
		case <-st.done:
		case <-late:
			return
		}
	}
}

// keptTime is how long the end waits for a job to be left to itself.
const keptTime = time.Second

// awaitKept waits for jobs whose main process has ended, and whose keeper is about
// to leave the others of them to themselves, which is their policy.
func (s *Server) awaitKept() {
	s.mu.Lock()
	var about []*job
	for _, j := range s.jobs {
		if j.mine && j.leftovers == unit.LeftoversKeep && !j.over() && j.facts().Exit {
			about = append(about, j)
		}
	}
	s.mu.Unlock()
	if len(about) > 0 {
		s.reached(awaitingKept)
	}
	late := time.After(keptTime)
	for _, j := range about {
		select {
		case <-j.kept:
		case <-j.settled:
		case <-late:
			return
		}
	}
}

// mine are the unsettled jobs of this server: those that end with it, and those
// that do not. grace is the longest of the former.
func (s *Server) mine() (ours, left []string, grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left = []string{}
	for name, j := range s.jobs {
		switch {
		case !j.mine || j.over() || j.toldEnd():
		case j.isDetached():
			left = append(left, name)
		default:
			ours = append(ours, name)
			grace = max(grace, j.grace)
		}
	}
	sort.Strings(ours)
	sort.Strings(left)
	return ours, left, grace
}

// conclude answers what still waits for an answer, and says goodbye.
func (s *Server) conclude(e Ended) {
	s.mu.Lock()
	over := s.over
	for _, c := range s.calls {
		if c != over {
			c.close(errEnded)
		}
	}
	s.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.tasks.Wait()
	}()
	select {
	case <-answered:
	case <-time.After(farewellTime):
	}
	if over != nil {
		over.reply(nil, &e, false)
	}
	s.w.last(notification(&e))
}
