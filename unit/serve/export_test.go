package serve

import (
	"sync"
	"time"
)

// HoldKept holds up whoever leaves the rest of a job to itself until the server
// is about to end, and waits for just that; where it does not wait, until it has
// surely gone on.
func (s *Server) HoldKept() {
	const goesOn = keptTime / 2
	awaited := make(chan struct{})
	await := sync.OnceFunc(func() { close(awaited) })
	ending := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ending
	}
	s.at = func(m moment) {
		if m == awaitingKept {
			await()
			return
		}
		for !ending() {
			time.Sleep(time.Millisecond)
		}
		select {
		case <-awaited:
		case <-time.After(goesOn):
		}
	}
}
