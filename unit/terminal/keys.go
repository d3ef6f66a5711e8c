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
// none. The keys of a sequence are passed on to nobody: one that has begun is
// held back until it is clear that it is none.
type Keys struct {
	sequence []byte
	// typed is how many keys of it have been typed, and are held back.
	typed int
	began time.Time
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

// Find looks at keys that were typed at a time, and returns those that are to be
// passed on now. found says that the sequence has been typed: what follows it is
// not looked at.
func (k *Keys) Find(typed []byte, at time.Time) (pass []byte, found bool) {
	if len(k.sequence) == 0 {
		return typed, false
	}
	pass = k.Late(at)
	for _, c := range typed {
		if k.typed == 0 {
			k.began = at
		}
		if c == k.sequence[k.typed] {
			if k.typed++; k.typed == len(k.sequence) {
				k.typed = 0
				return pass, true
			}
			continue
		}
		had := append(append([]byte{}, k.sequence[:k.typed]...), c)
		k.typed, k.began = k.restart(had), at
		pass = append(pass, had[:len(had)-k.typed]...)
	}
	return pass, false
}

// restart is how much of the sequence has been typed with the newest keys, of
// which all but the last were the sequence's.
func (k *Keys) restart(had []byte) int {
	for n := len(had) - 1; n > 0; n-- {
		if string(had[len(had)-n:]) == string(k.sequence[:n]) {
			return n
		}
	}
	return 0
}

// Late returns the keys that were held back for longer than a sequence may take.
func (k *Keys) Late(at time.Time) []byte {
	if k.typed == 0 || at.Sub(k.began) <= keysWithin {
		return nil
	}
	return k.Held()
}

// Held returns the keys that are held back, which are it no longer.
func (k *Keys) Held() []byte {
	held := append([]byte{}, k.sequence[:k.typed]...)
	k.typed = 0
	return held
}

// due is how long it takes until keys are late; negative when none are held back.
func (k *Keys) due(at time.Time) time.Duration {
	if k.typed == 0 {
		return -1
	}
	return max(k.began.Add(keysWithin).Sub(at), 0) + time.Millisecond
}
