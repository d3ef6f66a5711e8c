package terminal

// token is what a byte of a terminal's output ends.
type token byte

const (
	// tokenNone: the byte is in the midst of something.
	tokenNone token = iota
	// tokenText is a byte of a character, or a control character.
	tokenText
	// tokenEscape and tokenCSI are whole sequences: ESC and what follows it, and
	// CSI with its parameters (ECMA-48, 5.3 and 5.4).
	tokenEscape
	tokenCSI
	// tokenString is a string with its end: OSC, DCS, APC, PM or SOS. Its text is
	// not kept.
	tokenString
	// tokenBad is a byte that no terminal should be shown: a C1 control in eight
	// bits, or what is left of a sequence that was broken off.
	tokenBad
)

// maxSequence bounds a sequence; a longer one is bad.
const maxSequence = 64

// scanner tells text from control sequences, byte by byte, however the output
// comes in pieces. The zero value begins with text.
type scanner struct {
	state scanState
	// seq are the bytes of the sequence, or of the character, that has begun.
	seq [maxSequence]byte
	n   int
	// more is how many bytes of a character are to come.
	more int
}

type scanState byte

const (
	scanText scanState = iota
	scanEscape
	scanCSI
	scanString
	scanStringEscape
)

const (
	bell      = 0x07
	cancel    = 0x18
	subst     = 0x1a
	escape    = 0x1b
	leadOfC1  = 0xc2 // U+0080 to U+009F are this and 0x80 to 0x9f in UTF-8
	endOfC1   = 0xa0
	endOfTail = 0xc0
)

// next takes a byte. What it returns is valid until the next one.
func (s *scanner) next(c byte) (token, []byte) {
	switch {
	case c == cancel || c == subst:
		if s.state == scanText {
			return tokenBad, nil
		}
		s.state = scanText
		return tokenBad, nil
	case s.state == scanString:
		switch c {
		case bell:
			s.state = scanText
			return tokenString, nil
		case escape:
			s.state = scanStringEscape
		}
		return tokenNone, nil
	case s.state == scanStringEscape && c == '\\':
		s.state = scanText
		return tokenString, nil
	case c == escape || s.state == scanStringEscape:
		s.state, s.seq[0], s.n, s.more = scanEscape, escape, 1, 0
		if c == escape {
			return tokenNone, nil
		}
	}
	switch s.state {
	case scanEscape:
		return s.escaped(c)
	case scanCSI:
		return s.control(c)
	}
	return s.text(c)
}

// plain is how many bytes are printable ASCII, in the midst of nothing. They
// change nothing here.
func (s *scanner) plain(b []byte) int {
	if s.state != scanText || s.more > 0 {
		return 0
	}
	for i, c := range b {
		if c < ' ' || c > '~' {
			return i
		}
	}
	return len(b)
}

// keep adds a byte to the sequence; false when it has become too long.
func (s *scanner) keep(c byte) bool {
	if s.n == maxSequence {
		s.state = scanText
		return false
	}
	s.seq[s.n] = c
	s.n++
	return true
}

func (s *scanner) escaped(c byte) (token, []byte) {
	if !s.keep(c) {
		return tokenBad, nil
	}
	switch {
	case s.n == 2 && c == '[':
		s.state = scanCSI
	case s.n == 2 && (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_'):
		s.state = scanString
	case c >= 0x20 && c < 0x30: // more to come
	case c >= 0x30 && c < 0x7f:
		s.state = scanText
		return tokenEscape, s.seq[:s.n]
	default:
		s.state = scanText
		return tokenBad, nil
	}
	return tokenNone, nil
}

func (s *scanner) control(c byte) (token, []byte) {
	switch {
	case !s.keep(c):
		return tokenBad, nil
	case c >= 0x20 && c < 0x40:
		return tokenNone, nil
	}
	s.state = scanText
	if c < 0x40 || c >= 0x7f {
		return tokenBad, nil
	}
	return tokenCSI, s.seq[:s.n]
}

// text tells the bytes of a character in UTF-8 from controls of eight bits. A
// character comes whole.
func (s *scanner) text(c byte) (token, []byte) {
	switch {
	case s.more > 0 && c >= 0x80 && c < endOfTail:
		s.seq[s.n] = c
		s.n++
		s.more--
		if s.more > 0 {
			return tokenNone, nil
		}
		if s.seq[0] == leadOfC1 && c < endOfC1 {
			return tokenBad, nil
		}
		return tokenText, s.seq[:s.n]
	case c >= 0x80 && c < endOfC1:
		s.more = 0
		return tokenBad, nil
	case c >= leadOfC1 && c < 0xf8:
		s.seq[0], s.n = c, 1
		s.more = 1
		if c >= 0xe0 {
			s.more++
		}
		if c >= 0xf0 {
			s.more++
		}
		return tokenNone, nil
	}
	s.more = 0
	s.seq[0] = c
	return tokenText, s.seq[:1]
}

// begun are the bytes that let another terminal take what follows as this one
// does: those of a sequence or character that has begun. A string goes on as one
// that means nothing.
func (s *scanner) begun() []byte {
	switch {
	case s.state == scanString:
		return []byte("\x1b]")
	case s.state == scanStringEscape:
		return []byte("\x1b]\x1b")
	case s.state != scanText || s.more > 0:
		return s.seq[:s.n]
	}
	return nil
}
