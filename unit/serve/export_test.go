package serve

import (
	"sync"
	"time"
)

// Hold lets a server meet what chance seldom meets. "kept" holds up whoever
// leaves the rest of a job to itself until the server is about to end, and waits
// for just that; where it does not wait, until it has surely gone on. "start"
// gives up a start just when it has come to something. "watch" lets two requests
// meet that make the same job known. Empty holds nothing up.
func (s *Server) Hold(what string) {
	switch what {
	case "kept":
		s.holdKept()
	case "start":
		s.at = func(m moment) {
			if m == startOver {
				s.abortAll(func(*start) bool { return true })
			}
		}
	case "watch":
		var met sync.WaitGroup
		met.Add(2)
		s.at = func(m moment) {
			if m == aboutToWatch {
				met.Done()
				met.Wait()
			}
		}
	}
}

func (s *Server) holdKept() {
	const goesOn = keptTime / 2
	awaited := make(chan struct{})
	await := sync.OnceFunc(func() { close(awaited) })
	ending := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.ending
	}
	s.at = func(m moment) {
		switch m {
		case awaitingKept:
			await()
		case aboutToLeave:
			for !ending() {
				time.Sleep(time.Millisecond)
			}
			select {
			case <-awaited:
			case <-time.After(goesOn):
			}
		}
	}
}
