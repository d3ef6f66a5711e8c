package terminal

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestParseKeys(t *testing.T) {
	for text, want := range map[string]string{
		"^]^]^]": "\x1d\x1d\x1d", "^Pq": "\x10q", "^p^q": "\x10\x11", "none": "", "^?": "\x7f", "^@": "\x00", "^[x": "\x1bx", "^^": "\x1e", "non": "non",
		strings.Repeat("a", maxKeys): strings.Repeat("a", maxKeys),
	} {
		k, err := ParseKeys(text)
		if err != nil || string(k.sequence) != want {
			t.Errorf("%q is %q, %v; want %q", text, k.sequence, err, want)
		}
	}
	for _, text := range []string{"", "^", "a^", "^1", "^é", "é", strings.Repeat("a", maxKeys+1), "^]^]^]\xff"} {
		if k, err := ParseKeys(text); err == nil {
			t.Errorf("%q is %q, want an error", text, k.sequence)
		}
	}
}

func TestFindKeys(t *testing.T) {
	for _, c := range []struct {
		keys  string
		typed []string // a blank before it is a pause of two seconds
		pass  string
		found bool
	}{
		{"^]^]^]", []string{"\x1d\x1d\x1drest"}, "", true},
		{"^]^]^]", []string{"ab\x1d", "\x1d", "\x1d"}, "ab", true},
		{"^]^]^]", []string{"ab\x1d", "\x1d"}, "ab", false},
		{"^]^]^]", []string{"\x1d", " \x1d\x1d"}, "\x1d", false},
		{"^]^]^]", []string{"\x1d", " \x1d\x1d", "\x1d"}, "\x1d", true},
		{"^]^]^]", []string{"\x1d\x1dx\x1d"}, "\x1d\x1dx", false},
		{"aab", []string{"aaab"}, "a", true},
		{"abac", []string{"ababac"}, "ab", true},
		{"abab", []string{"abaabab"}, "aba", true},
		{"^Pq", []string{"\x10q"}, "", true},
		{"^Pq", []string{"\x10", " q"}, "\x10q", false},
		{"x", []string{"yx"}, "y", true},
		{"none", []string{"\x1d\x1d\x1d"}, "\x1d\x1d\x1d", false},
	} {
		k, err := ParseKeys(c.keys)
		if err != nil {
			t.Fatal(err)
		}
		at, passed, found := time.Unix(1000, 0), "", false
		for _, typed := range c.typed {
			if rest, ok := strings.CutPrefix(typed, " "); ok {
				at, typed = at.Add(2*time.Second), rest
			}
			pass, f := k.Find([]byte(typed), at)
			passed, found = passed+string(pass), found || f
		}
		if passed != c.pass || found != c.found {
			t.Errorf("%s of %q: %q, %v; want %q, %v", c.keys, c.typed, passed, found, c.pass, c.found)
		}
	}
}

// However the keys come in pieces, the sequence is found where it first is, and
// all before it is passed on, or all keys, sooner or later.
func FuzzFindKeys(f *testing.F) {
	f.Add("^]^]^]", []byte("a\x1d\x1d\x1d"), uint8(2))
	f.Add("abac", []byte("xababacx"), uint8(3))
	f.Fuzz(func(t *testing.T, text string, typed []byte, piece uint8) {
		k, err := ParseKeys(text)
		if err != nil {
			return
		}
		want, i := typed, bytes.Index(typed, k.sequence)
		if i >= 0 && len(k.sequence) > 0 {
			want = typed[:i]
		}
		var got []byte
		found := false
		for rest := typed; len(rest) > 0 && !found; {
			n := min(int(piece)+1, len(rest))
			var pass []byte
			pass, found = k.Find(rest[:n], time.Unix(0, 0))
			got, rest = append(got, pass...), rest[n:]
		}
		if due := k.due(time.Unix(0, 0)); (due > 0) != (k.typed > 0) || k.Late(time.Unix(1, 0)) != nil {
			t.Errorf("keys are late in %v", due)
		}
		got = append(got, k.Late(time.Unix(2, 0))...)
		if !bytes.Equal(got, want) || found != (i >= 0 && len(k.sequence) > 0) {
			t.Errorf("%q of %q passes %q, %v; want %q", text, typed, got, found, want)
		}
	})
}
