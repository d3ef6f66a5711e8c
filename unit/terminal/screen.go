package terminal

// screen is what a job has made of a terminal by what it printed there.
type screen struct {
	scan scanner
	modes
}

// add takes what was printed.
func (s *screen) add(b []byte) {
	for len(b) > 0 {
		// Most of it is plain.
		if n := s.scan.plain(b); n > 0 {
			s.home = false
			b = b[n:]
			continue
		}
		s.note(s.scan.next(b[0]))
		b = b[1:]
	}
}

// restore makes the terminal again as it was at first. A sequence that was broken
// off in its midst is given up, or the terminal would take what follows for it.
func (s *screen) restore() []byte {
	b := s.leave()
	if s.scan.state != scanText {
		b = append([]byte{cancel}, b...)
	}
	return b
}
