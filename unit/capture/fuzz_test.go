package capture

import (
	"errors"
	"testing"
)

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"", "o0e0", "o123e45", "o999999999999999999e1", "o1e1000000000000000000", "o01e1", "o1e", "oe1", "o1e1e1", "o+1e1", "o-1e1", "O1E1", "o1e1 ", "o١e1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCursor(s)
		var bad *CursorSyntaxError
		if err != nil {
			if !errors.As(err, &bad) || c != (Cursor{}) {
				t.Errorf("%q: %v, %v", s, c, err)
			}
			return
		}
		if c.String() != s || c.Stdout < 0 || c.Stderr < 0 {
			t.Errorf("%q reads as %v", s, c)
		}
		if c.With(Stdout, 7).Offset(Stdout) != 7 || c.With(Stderr, 7).Offset(Stdout) != c.Stdout || c.With(Stderr, 7).Offset(Stderr) != 7 {
			t.Errorf("%v: With and Offset", c)
		}
	})
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"", "stdout", "stderr", "stdout.0000000000000007", "stdout.0000000000000007.end", "stdout.10000000000000000", "stdout.00000000000000007", "stdout.end", "stdout.0000000000000007.end.end", "stdout.\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		offset, end, ok := parseName(Stdout, s)
		if !ok {
			return
		}
		want := segmentName(Stdout, offset)
		if end {
			want = endName(Stdout, offset)
		}
		if s != want && s != "stdout" || offset < 0 || offset+1<<61 < 0 {
			t.Errorf("%q reads as %d, %v", s, offset, end)
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00stdout\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) { events(b) })
}
