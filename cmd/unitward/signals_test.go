package main

import (
	"context"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever is impatient during a slow start sends more than the channel holds.
func TestPendingSignals(t *testing.T) {
	s := &signals{c: make(chan os.Signal, 2)}
	ctx, cancel := context.WithCancel(context.Background())
	s.starting(ctx, cancel)
	for _, n := range []os.Signal{unix.SIGWINCH, unix.SIGCONT, unix.SIGWINCH, unix.SIGTERM} {
		s.c <- n
	}
	<-ctx.Done()
	for len(s.c) < cap(s.c) {
		s.c <- unix.SIGINT
	}
	if got, want := s.pending(), []os.Signal{unix.SIGTERM, unix.SIGWINCH, unix.SIGCONT}; !slices.Equal(got, want) {
		t.Errorf("pending are %v, want %v", got, want)
	}
}
