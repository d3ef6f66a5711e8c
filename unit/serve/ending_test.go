package serve

import (
	"testing"
	"time"
)

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
