package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestHistoryScreenful(t *testing.T) {
	numbered := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "line %d\r\n", i)
		}
		return b.String()
	}
	for _, c := range []struct{ name, printed, want string }{
		{"nothing", "", ""},
		{"less than a screen", "a\r\nb\r\n$ ", "a\r\nb\r\n$ "},
		{"its last lines", numbered(1, 100) + "$ ", numbered(98, 100) + "$ "},
		{"after a clear", "old\r\n\x1b[H\x1b[2J\x1b[3J$ x", "\x1b[H\x1b[2J\x1b[2J$ x"},
		{"after another clear", "old\r\n\x1b[H\x1b[J$ x", "\x1b[H\x1b[2J\x1b[J$ x"},
		{"what is erased below is no clear", "old\r\n\x1b[3;1H\x1b[J$ x", "old\r\n\x1b[3;1H\x1b[J$ x"},
		{"long after a clear", "\x1b[2J" + numbered(1, 9) + "$ ", numbered(7, 9) + "$ "},
		{"after a reset", "old\x1b[?2004h\x1bcnew", "\x1b[H\x1b[2Jnew"},
		{"the alternate screen", "$ vi\r\n\x1b[?1049h\x1b[?25l\x1b[1;1Htext\x1b[5;5H", "\x1b[?1049h\x1b[H\x1b[2J\x1b[?25l\x1b[?1049h\x1b[?25l\x1b[1;1Htext\x1b[5;5H"},
		{"back from it", "$ vi\r\n\x1b[?1049h\x1b[1;1Htext\x1b[?1049l$ ", "$ vi\r\n\x1b[?1049h\x1b[1;1Htext\x1b[?1049l$ "},
		{"modes", "\x1b[?2004h\x1b[?1000;1006h\x1b[?7l\x1b=\x1b[?1000l$ ", "\x1b[?7l\x1b[?1006h\x1b[?2004h\x1b=\x1b[?2004h\x1b[?1000;1006h\x1b[?7l\x1b=\x1b[?1000l$ "},
		{"questions", "a\x1b[6n\x1b[c\x1b[>c\x1b[?25$p\x1b[18t\x05\x1bZ\x1b[?ub", "ab"},
		{"what does more than print", "a\a\x1b]0;title\a\x1b]52;c;eA==\x1b\\\x1bP$qm\x1b\\\x1b[5i\x1b_apc\x1b\\b", "ab"},
		{"controls of eight bits", "a\x9b6nb\u009b6nc", "a6nb6nc"},
		{"characters", "äß€😀", "äß€😀"},
		{"in the midst of a sequence", "a\x1b[3", "a\x1b[3"},
		{"in the midst of a character", "a\xe2\x82", "a\xe2\x82"},
		{"in the midst of a title", "a\x1b]0;ti", "a\x1b]"},
	} {
		for _, piece := range []int{1, 3, 1 << 20} {
			h := &history{}
			for rest := []byte(c.printed); len(rest) > 0; {
				n := min(piece, len(rest))
				h.add(rest[:n])
				rest = rest[n:]
			}
			if got := string(h.screenful(4)); got != "\x1b[m"+c.want {
				t.Errorf("%s, in pieces of %d:\n%q, want\n%q", c.name, piece, got, "\x1b[m"+c.want)
			}
		}
	}
}

// What is kept is bounded, and begins with a whole line.
func TestHistoryBounded(t *testing.T) {
	h := &history{}
	line := strings.Repeat("x", 999) + "\n"
	for range 4 * historySize / len(line) {
		h.add([]byte(line))
	}
	if len(h.ring) != historySize || h.oldest() != h.off-historySize {
		t.Errorf("%d bytes are kept, from %d to %d", len(h.ring), h.oldest(), h.off)
	}
	got := string(h.screenful(100000))
	if want := "\x1b[m" + strings.Repeat(line, historySize/len(line)); got != want {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	b := make([]byte, 2*historySize)
	if n := h.read(b, h.oldest()); n != historySize || string(b[n-len(line):n]) != line {
		t.Errorf("%d bytes are read", n)
	}
}

// What a terminal was told to be is undone when it is left.
func TestModesLeave(t *testing.T) {
	for printed, want := range map[string]string{
		"":                             "",
		"text\r\n":                     "",
		"\x1b[1mbold":                  "\x1b[m",
		"\x1b[1mbold\x1b[m":            "",
		"\x1b[1mbold\x1b[0m\x1b[0;1m":  "\x1b[m",
		"\x1b[?25l\x1b[?2004h":         "\x1b[?25h\x1b[?2004l",
		"\x1b[?1049h\x1b[?1h\x1b=":     "\x1b[?1l\x1b>\x1b[?1049l",
		"\x1b[?47h":                    "\x1b[?1049l",
		"\x1b[?1049h\x1b[?1049l":       "",
		"\x1b[?1002;1006h\x1b[?1002l":  "\x1b[?1006l",
		"\x1b[2;9r\x1b[4h\x1b(0":       "\x1b7\x1b[r\x1b8\x1b[4l\x1b(B",
		"\x1b[2;9r\x1b[r\x1b(0\x1b(B":  "",
		"\x1b[?1049h\x1b[?25l\x1b[!p":  "\x1b[?1049l",
		"\x1b[?99999999999999999999h":  "",
		"\x1b[?1049h\x1b[?25l\x1bc":    "",
		"\x1b[>4;2m\x1b[?1$p\x1b[?25n": "",
	} {
		h := &history{}
		h.add([]byte(printed))
		if got := string(h.leave()); got != want {
			t.Errorf("after %q: %q, want %q", printed, got, want)
		}
	}
}

// Whatever is printed, what is shown again asks for nothing and rings no bell,
// and what comes after it is taken as it would have been.
func FuzzHistory(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[6n"), []byte("x"))
	f.Add([]byte("a\x1b]0;ti"), []byte("tle\x1b\\\x1b[6n"))
	f.Add([]byte("\xe2\x82"), []byte("\xac\x9b"))
	f.Fuzz(func(t *testing.T, first, then []byte) {
		h := &history{}
		h.add(first)
		shown := h.screenful(24)
		if again := harmless(shown); !bytes.Equal(again, bytes.TrimSuffix(shown, h.scan.begun())) {
			t.Errorf("%q is shown as %q, of which harmless is %q", first, shown, again)
		}
		var there, here scanner
		for _, c := range first {
			there.next(c)
		}
		for _, c := range shown {
			here.next(c)
		}
		for _, c := range then {
			want, _ := there.next(c)
			if got, _ := here.next(c); got != want {
				t.Fatalf("after %q, shown as %q, %q is taken as %d, not %d", first, shown, c, got, want)
			}
		}
	})
}
