package terminal

import (
	"fmt"
	"strings"
	"time"
)

// DefaultKeys leave a terminal, as those of systemd-run and machinectl do.
const DefaultKeys = "^]^]^]"

// maxKeys bounds a sequence.
const maxKeys = 16

// keysWithin is the time that a whole sequence may take: who types its keys for
// the job does not do so as fast.
const keysWithin = time.Second

// Keys finds a sequence among the keys that are typed. The zero value finds
// none. All of them are passed on, but for the last of a sequence.
type Keys struct {
	sequence []byte
	typed    int
	began    time.Time
}

// ParseKeys reads a sequence: each key is a character, or ^ and a character for
// Ctrl and that key, as in "^]^]^]" or "^Pq"; "none" is no sequence. The error
// says what is wrong with the text.
func ParseKeys(text string) (*Keys, error) {
	k := &Keys{}
	if text == "none" {
		return k, nil
	}
	for rest := text; rest != ""; {
		c := rest[0]
		rest = rest[1:]
		if c == '^' {
			if rest == "" {
				return nil, fmt.Errorf("a key is missing after ^")
			}
			// As in stty(1): ^? is DEL, ^A and ^a are 1.
			c = strings.ToUpper(rest[:1])[0] ^ 0x40
			rest = rest[1:]
			if c >= ' ' && c != 0x7f {
				return nil, fmt.Errorf("there is no key of Ctrl and %q", string(rune(c^0x40)))
			}
		}
		if c >= 0x80 {
			return nil, fmt.Errorf("%q is not a key of one byte", rest)
		}
		k.sequence = append(k.sequence, c)
	}
	if len(k.sequence) == 0 || len(k.sequence) > maxKeys {
		return nil, fmt.Errorf("a sequence of 1 to %d keys is expected", maxKeys)
	}
	return k, nil
}

// Find looks at keys that were typed at a time, and returns how many of them are
// to be passed on. found says that the sequence has been typed: what follows it
// is not looked at.
func (k *Keys) Find(typed []byte, at time.Time) (pass int, found bool) {
	if len(k.sequence) == 0 {
		return len(typed), false
	}
	for i, c := range typed {
		if k.typed > 0 && at.Sub(k.began) > keysWithin {
			k.typed = 0
		}
		if c != k.sequence[k.typed] {
			k.typed = k.restart(c)
			k.began = at
			continue
		}
		if k.typed == 0 {
			k.began = at
		}
		if k.typed++; k.typed == len(k.sequence) {
			k.typed = 0
			return i, true
		}
	}
	return len(typed), false
}

// restart is how much of the sequence has been typed when c comes instead of the
// next key.
func (k *Keys) restart(c byte) int {
	had := append(append([]byte{}, k.sequence[:k.typed]...), c)
	for n := k.typed; n > 0; n-- {
		if string(had[len(had)-n:]) == string(k.sequence[:n]) {
			return n
		}
	}
	return 0
}
