package manual

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// width is the longest line of text: mdoc(7) has lines of at most 80 bytes.
const width = 76

// paragraphs turns plain text into mdoc. An empty line ends a paragraph; each
// sentence begins on a line of its own, as the formatter wants it.
func paragraphs(text string) string {
	var out []string
	for _, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		var b strings.Builder
		length := 0
		words := strings.Fields(p)
		for i, w := range words {
			switch {
			case i == 0:
			case endsSentence(words[i-1]) || length+1+len(w) > width:
				b.WriteByte('\n')
				length = 0
			default:
				b.WriteByte(' ')
				length++
			}
			length += len(w)
			e := escape(w)
			if length == len(w) {
				e = first(e)
			}
			b.WriteString(e)
		}
		b.WriteByte('\n')
		out = append(out, b.String())
	}
	return strings.Join(out, ".Pp\n")
}

func endsSentence(word string) bool {
	return strings.HasSuffix(strings.TrimRight(word, ")\""), ".") || strings.HasSuffix(word, "!") || strings.HasSuffix(word, "?")
}

// escape writes text as it is to be read: a backslash is none of the
// formatter's, and the dash of an option is no hyphen.
func escape(s string) string {
	var b strings.Builder
	before := ' '
	for _, r := range s {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-' && (before == '-' || !unicode.IsLetter(before) && !unicode.IsDigit(before)):
			b.WriteString(`\-`)
		default:
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

// first guards the beginning of a line, where a dot or a quote begins a
// request.
func first(s string) string {
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
}

func lower(s string) string { return change(s, unicode.ToLower) }
func upper(s string) string { return change(s, unicode.ToUpper) }

// change changes the first letter, unless the word is all capitals.
func change(s string, to func(rune) rune) string {
	word, _, _ := strings.Cut(s, " ")
	if len(word) > 1 && strings.ToUpper(word) == word {
		return s
	}
	r, n := utf8.DecodeRuneInString(s)
	return string(to(r)) + s[n:]
}
