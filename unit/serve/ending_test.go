package serve

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// As long as something moves the end goes on, and for as long as after the last
// proof where nothing does.
func TestEndGivesUpWhereNothingMoves(t *testing.T) {
	const grace = 2 * time.Second
	for _, moving := range []time.Duration{0, time.Second, grace + proofTime - time.Millisecond, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go giveUp(ctx, cancel, grace, func() time.Time {
				if time.Since(began) < moving {
					return time.Now()
				}
				return began.Add(moving)
			})
			<-ctx.Done()
			if took, want := time.Since(began), max(grace, moving)+proofTime; took != want {
				t.Errorf("what moves for %v is given up after %v, not %v", moving, took, want)
			}
		})
	}
}

// The end waits for all starts together no longer than for one.
func TestEndDoesNotWaitForStarts(t *testing.T) {
	stuck := []*start{{done: make(chan struct{})}, {done: make(chan struct{})}, {done: make(chan struct{})}}
	close(stuck[2].done)
	awaitStarts(stuck, time.Millisecond)
}

// No start slips past the end: it is refused, or aborted with the others.
func TestStartMeetsTheEnd(t *testing.T) {
	s := New(Config{MaxRunning: 1})
	early, late := &start{token: "early", cancel: func() {}}, &start{token: "late"}
	if fault := s.note(early); fault != nil {
		t.Fatal(fault)
	}
	s.ending = true
	if fault := s.note(late); fault == nil || fault.Data.Kind != KindShutdown {
		t.Fatalf("%+v", fault)
	}
	if starts := s.abortAll(func(*start) bool { return true }); len(starts) != 1 || starts[0] != early || s.tokens["late"] != nil {
		t.Errorf("%d are aborted", len(starts))
	}
}

// What the client was told of as settled is no more among what the end has stopped.
func TestEndMeetsWhatHasSettled(t *testing.T) {
	s := New(Config{MaxRunning: 1})
	told, lives := &job{mine: true, at: time.Now(), settled: make(chan struct{})}, &job{mine: true, settled: make(chan struct{})}
	s.jobs["told"], s.jobs["lives"] = told, lives
	if ours, left, _ := s.mine(); len(ours) != 1 || ours[0] != "lives" || len(left) != 0 {
		t.Errorf("%q end with the server, %q stay", ours, left)
	}
}
