package terminal

import "slices"

const (
	// historySize is how much of the output is kept: more than a large screen
	// of coloured characters.
	historySize = 128 << 10
	// maxLines bounds how many lines of it are known apart.
	maxLines = 512
)

// history is the newest of what a job has printed.
type history struct {
	ring []byte
	// off is how many bytes there were.
	off  int64
	scan scanner
	modes
	// begun is where the sequence begins that is being printed, blank the newest
	// after which the screen was blank, and main that of the main screen while the
	// job is on another.
	begun, blank, main int64
	// lines are where the newest lines begin, the next one at lines[next].
	lines [maxLines]int64
	next  int
}

// add takes what was printed.
func (h *history) add(b []byte) {
	for len(b) > 0 {
		// Most of it is plain.
		if n := h.scan.plain(b); n > 0 {
			h.keep(b[:n])
			h.home = false
			b = b[n:]
			continue
		}
		c := b[0]
		if c == escape {
			h.begun = h.off
		}
		h.keep(b[:1])
		b = b[1:]
		was := h.alternate
		t, seq := h.scan.next(c)
		blank := h.note(t, seq)
		switch {
		case was && !h.alternate:
			h.blank = h.main
		case !was && h.alternate:
			h.main = h.blank
		}
		switch {
		case blank:
			h.blank = h.begun
		case t == tokenText && seq[0] == '\n' && !h.alternate:
			h.lines[h.next] = h.off
			h.next = (h.next + 1) % maxLines
		}
	}
}

// keep puts bytes into the ring.
func (h *history) keep(b []byte) {
	for len(b) > 0 {
		n := len(b)
		if room := historySize - len(h.ring); room > 0 {
			n = min(n, room)
			h.ring = append(h.ring, b[:n]...)
		} else {
			n = copy(h.ring[h.off%historySize:], b)
		}
		h.off += int64(n)
		b = b[n:]
	}
}

// oldest is where what is kept begins.
func (h *history) oldest() int64 { return h.off - int64(len(h.ring)) }

// read copies what was printed from a place on.
func (h *history) read(b []byte, from int64) int {
	n := 0
	for n < len(b) && from+int64(n) < h.off {
		i := int((from + int64(n)) % historySize)
		end := min(len(h.ring), i+int(h.off-from)-n)
		n += copy(b[n:], h.ring[i:end])
	}
	return n
}

// screenful is what shows a terminal of so many rows what is on the job's screen,
// as far as it is kept, and makes it as the job has made its own. What comes
// after it can be printed as it is.
func (h *history) screenful(rows int) []byte {
	from := max(h.oldest(), h.blank)
	if rows = min(rows, maxLines); rows > 0 {
		// The lines above the last one, on which the cursor is.
		from = max(from, h.lines[(h.next-rows+maxLines)%maxLines])
	}
	kept := make([]byte, h.off-from)
	h.read(kept, from)
	if from == h.oldest() && from > 0 {
		// It begins in the midst of something.
		i := slices.IndexFunc(kept, func(c byte) bool { return c == '\n' || c == escape })
		if i >= 0 && kept[i] == '\n' {
			i++
		}
		kept = kept[max(i, 0):]
	}
	out := append([]byte("\x1b[m"), h.enter()...)
	if from == h.blank && from > 0 && !h.alternate {
		out = append(out, "\x1b[H\x1b[2J"...)
	}
	return append(append(out, harmless(kept)...), h.scan.begun()...)
}

// harmless is of what was printed what can be printed again. Questions are left
// out, which a terminal would answer to the job as if somebody typed, and what
// does something else than to print, such as to set the clipboard or to ring.
func harmless(printed []byte) []byte {
	var s scanner
	out := make([]byte, 0, len(printed))
	for _, c := range printed {
		t, seq := s.next(c)
		switch {
		case t == tokenText && (seq[0] >= ' ' || seq[0] >= '\b' && seq[0] <= '\r' || seq[0] == 0x0e || seq[0] == 0x0f),
			t == tokenEscape && harmlessEscape(seq),
			t == tokenCSI && harmlessControl(seq):
			out = append(out, seq...)
		}
	}
	return out
}

// harmlessEscape allows charsets, the cursor's saving and moving, and the
// keypad's mode.
func harmlessEscape(seq []byte) bool {
	switch seq[1] {
	case '(', ')', '*', '+', '#':
		return len(seq) == 3
	case '7', '8', '=', '>', 'D', 'E', 'H', 'M':
		return len(seq) == 2
	}
	return false
}

// harmlessControl allows what prints, moves and erases on the screen, and modes.
func harmlessControl(seq []byte) bool {
	final := seq[len(seq)-1]
	if p := seq[2]; p >= '<' && p <= '?' {
		return p == '?' && (final == 'h' || final == 'l' || final == 'J' || final == 'K')
	}
	if i := seq[len(seq)-2]; i >= ' ' && i < '0' {
		return final == 'q' && i == ' ' || final == 'p' && i == '!' // the cursor's form; DECSTR
	}
	switch final {
	case 'J':
		return string(seq[2:len(seq)-1]) != "3" // the lines that have left the screen
	case '@', 'A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I', 'K', 'L', 'M', 'P', 'S', 'T', 'X', 'Z', '`', 'a', 'b', 'd', 'e', 'f', 'g', 'h', 'l', 'm', 'r', 's', 'u':
		return true
	}
	return false
}
