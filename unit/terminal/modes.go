package terminal

import (
	"bytes"
	"strconv"
)

// modes are what a job has made of a terminal that a user would miss in his own:
// modes that are not as they are at first, another screen, another charset.
type modes struct {
	// changed are the private modes that are not as at first.
	changed [len(private)]bool
	// alternate is true on a screen that has nothing to do with what was printed
	// before it was entered.
	alternate bool
	keypad    bool // ESC =
	charset   bool // ESC ( and another than B
	insert    bool // CSI 4 h
	region    bool // CSI … r: not all of the screen scrolls
	styled    bool // CSI … m has come, and none that undoes it
	home      bool // the newest sequence moved the cursor home
}

// private are the private modes that are known, but for those of the alternate
// screen, and whether they are set at first (xterm's ctlseqs, DECSET).
var private = [...]struct {
	number int
	set    bool
}{
	{1, false}, {5, false}, {6, false}, {7, true}, {9, false}, {25, true}, {66, false},
	{1000, false}, {1001, false}, {1002, false}, {1003, false}, {1004, false}, {1005, false}, {1006, false},
	{1007, false}, {1015, false}, {1016, false}, {2004, false}, {2026, false},
}

// note takes a sequence. It is true for one after which the screen is blank.
func (m *modes) note(t token, seq []byte) (blank bool) {
	if t == tokenNone {
		return false
	}
	home := m.home
	m.home = false
	switch t {
	case tokenEscape:
		return m.escaped(seq)
	case tokenCSI:
	default:
		return false
	}
	body, final := seq[2:len(seq)-1], seq[len(seq)-1]
	switch {
	case final == 'H':
		m.home = len(body) == 0 || string(body) == "1;1"
	case final == 'J':
		return string(body) == "2" || home && (len(body) == 0 || string(body) == "0")
	case final == 'm' && !bytes.ContainsAny(body, "<=>?"):
		m.styled = len(body) > 0 && string(body) != "0"
	case final == 'r' && !bytes.ContainsAny(body, "?"):
		m.region = len(body) > 0
	case final == 'p' && string(body) == "!": // DECSTR
		*m = modes{styled: m.styled, alternate: m.alternate}
	case final == 'h' || final == 'l':
		return m.switched(body, final == 'h')
	}
	return false
}

func (m *modes) escaped(seq []byte) (blank bool) {
	switch string(seq[1:]) {
	case "c": // RIS
		*m = modes{}
		return true
	case "=", ">":
		m.keypad = seq[1] == '='
	default:
		if len(seq) == 3 && seq[1] == '(' {
			m.charset = seq[2] != 'B'
		}
	}
	return false
}

func (m *modes) switched(body []byte, set bool) (blank bool) {
	if string(body) == "4" {
		m.insert = set
	}
	numbers, ok := bytes.CutPrefix(body, []byte("?"))
	if !ok {
		return false
	}
	for text := range bytes.SplitSeq(numbers, []byte(";")) {
		n, err := strconv.Atoi(string(text))
		switch {
		case err != nil:
			continue
		case n == 47, n == 1047, n == 1049:
			blank = blank || set && !m.alternate
			m.alternate = set
		}
		for i, p := range private {
			if p.number == n {
				m.changed[i] = set != p.set
			}
		}
	}
	return blank
}

// enter makes a terminal as the job has made its own.
func (m *modes) enter() []byte {
	var b []byte
	if m.alternate {
		b = append(b, "\x1b[?1049h\x1b[H\x1b[2J"...)
	}
	for i, changed := range m.changed {
		if changed {
			b = decset(b, private[i].number, !private[i].set)
		}
	}
	if m.keypad {
		b = append(b, "\x1b="...)
	}
	return b
}

// leave makes a terminal again as it was at first.
func (m *modes) leave() []byte {
	var b []byte
	for i, changed := range m.changed {
		if changed {
			b = decset(b, private[i].number, private[i].set)
		}
	}
	if m.region {
		b = append(b, "\x1b7\x1b[r\x1b8"...) // the cursor stays
	}
	if m.insert {
		b = append(b, "\x1b[4l"...)
	}
	if m.keypad {
		b = append(b, "\x1b>"...)
	}
	if m.charset {
		b = append(b, "\x1b(B"...)
	}
	if m.styled {
		b = append(b, "\x1b[m"...)
	}
	if m.alternate {
		b = append(b, "\x1b[?1049l"...)
	}
	return b
}

func decset(b []byte, number int, set bool) []byte {
	b = strconv.AppendInt(append(b, "\x1b[?"...), int64(number), 10)
	if set {
		return append(b, 'h')
	}
	return append(b, 'l')
}
