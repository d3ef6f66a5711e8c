package property

import "strings"

// lexer takes a value apart with systemd's rules of quoting and escaping.
type lexer struct {
	rest string
	// sep is the separator that ended the last word; 0 is the end of the
	// value.
	sep  byte
	done bool
}

// lexing says how a word is read. Without one of the escapes a backslash just
// drops out and takes its meaning from the next letter.
type lexing uint8

const (
	// unquote takes "…" and '…' off, also in the middle of a word.
	unquote lexing = 1 << iota
	// unescape reads the escapes of C, such as \n, \x20 and \s.
	unescape
	// unescapeSeparator lets a backslash protect a separator.
	unescapeSeparator
	// keepBackslash leaves every backslash, and what follows it, alone.
	keepBackslash
	// single makes each separator count: two of them hold an empty word.
	single
)

// next returns the next word; found is false at the end, valid is false where
// a quote or an escape is broken.
func (l *lexer) next(separators string, how lexing) (word string, found, valid bool) {
	if l.done {
		return "", false, true
	}
	s := l.rest
	if how&single == 0 {
		s = strings.TrimLeft(s, separators)
		if s == "" {
			l.end()
			return "", false, true
		}
	}
	var b strings.Builder
	var quote byte
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\\' && how&keepBackslash == 0:
			if i+1 == len(s) {
				return "", false, false
			}
			n, ok := escape(&b, s[i+1:], separators, how)
			if !ok {
				return "", false, false
			}
			i += 1 + n
			continue
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && how&unquote != 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && strings.IndexByte(separators, c) >= 0:
			l.rest, l.sep = s[i+1:], c
			if how&single == 0 {
				l.rest = strings.TrimLeft(l.rest, separators)
			}
			return b.String(), true, text(b.String())
		default:
			b.WriteByte(c)
		}
		i++
	}
	l.end()
	return b.String(), quote == 0, quote == 0 && text(b.String())
}

func (l *lexer) end() { l.rest, l.sep, l.done = "", 0, true }

// escape writes what follows a backslash and returns how long that was.
func escape(b *strings.Builder, s, separators string, how lexing) (int, bool) {
	if how&unescape != 0 {
		if n, ok := unescapeOne(b, s, false); ok {
			return n, true
		}
	}
	switch {
	case how&(unescape|unescapeSeparator) == 0,
		how&unescapeSeparator != 0 && (s[0] == '\\' || strings.IndexByte(separators, s[0]) >= 0):
		b.WriteByte(s[0])
		return 1, true
	}
	return 0, false
}

// words splits a value at white space.
func words(value string, how lexing) ([]string, bool) {
	all := []string{}
	l := lexer{rest: value}
	for {
		word, found, valid := l.next(whitespace, how)
		if !valid || !found {
			return all, valid
		}
		all = append(all, word)
	}
}

// Words splits a variable's value as the manager does where $NAME stands for
// arguments: at white space, with quotes taken off. A quote that is not closed
// ends with the text, and a backslash makes what follows it a letter.
func Words(value string) []string {
	var all []string
	s := value
	for {
		s = strings.TrimLeft(s, whitespace)
		if s == "" {
			return all
		}
		var b strings.Builder
		var quote byte
		i := 0
		for ; i < len(s); i++ {
			c := s[i]
			switch {
			case c == '\\':
				if i++; i < len(s) {
					b.WriteByte(s[i])
				}
				continue
			case quote != 0 && c == quote:
				quote = 0
				continue
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
				continue
			}
			if quote == 0 && strings.IndexByte(whitespace, c) >= 0 {
				break
			}
			b.WriteByte(c)
		}
		all = append(all, b.String())
		s = s[min(i, len(s)):]
	}
}
