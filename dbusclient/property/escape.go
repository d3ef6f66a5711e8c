package property

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescapeOne writes the meaning of the escape whose letters, without the
// backslash, s starts with. It returns how many of them belong to it.
func unescapeOne(b *strings.Builder, s string, nul bool) (int, bool) {
	const letters, meaning = `abfnrtv\"'s`, "\a\b\f\n\r\t\v\\\"' "
	if i := strings.IndexByte(letters, s[0]); i >= 0 {
		b.WriteByte(meaning[i])
		return 1, true
	}
	switch s[0] {
	case 'x':
		n, ok := code(s, 1, 2, 16)
		b.WriteByte(byte(n))
		return 3, ok && (n != 0 || nul)
	case 'u', 'U':
		width := 4
		if s[0] == 'U' {
			width = 8
		}
		n, ok := code(s, 1, width, 16)
		if !ok || n > utf8.MaxRune || !utf8.ValidRune(rune(n)) || n == 0 && !nul {
			return 0, false
		}
		b.WriteRune(rune(n))
		return 1 + width, true
	default:
		n, ok := code(s, 0, 3, 8)
		if !ok || n > 0xff || n == 0 && !nul {
			return 0, false
		}
		b.WriteByte(byte(n))
		return 3, true
	}
}

func code(s string, from, width, base int) (uint64, bool) {
	if len(s) < from+width || s[from] == '+' || strings.IndexByte(s[from:from+width], '_') >= 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(s[from:from+width], base, 32)
	return n, err == nil
}

// unescapeAll reads every escape of s. The result is bytes, not a text.
func unescapeAll(s string, nul bool) ([]byte, bool) {
	var b strings.Builder
	for {
		plain, rest, more := strings.Cut(s, `\`)
		b.WriteString(plain)
		if !more {
			return []byte(b.String()), true
		}
		if rest == "" {
			return nil, false
		}
		n, ok := unescapeOne(&b, rest, nul)
		if !ok {
			return nil, false
		}
		s = rest[n:]
	}
}

// decodeBase64 ignores white space, as systemd does.
func decodeBase64(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(s), ""))
	return b, err == nil
}
