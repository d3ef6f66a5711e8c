package terminal

import (
	"bytes"
	"io"
	"testing"
	"time"
)

func FuzzParseSize(f *testing.F) {
	f.Add([]byte{0, 24, 0, 80})
	f.Add([]byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, text []byte) {
		size, ok := parseSize(text)
		if ok != (len(text) == 4) || ok && string(size.message()) != string(text) {
			t.Errorf("%x is %v, %v", text, size, ok)
		}
	})
}

// Somebody who leaves finds his own terminal as it was.
func TestRemoteRestore(t *testing.T) {
	h := hold(t, nil)
	io.WriteString(h.job, "\x1b[?1049h\x1b[?25lfull")
	user, theirs := pair(t)
	r, err := Begin(RelayConfig{End: h.comes(Visit{}, false), In: theirs, Out: theirs})
	if err != nil {
		t.Fatal(err)
	}
	user.SetReadDeadline(time.Now().Add(patience))
	for shown := []byte{}; !bytes.HasSuffix(shown, []byte("full")); {
		b := make([]byte, 64)
		n, err := user.Read(b)
		if err != nil {
			t.Fatalf("%q is shown, %v", shown, err)
		}
		shown = append(shown, b[:n]...)
	}
	r.Finish(nil)
	gets(t, user, "\x1b[?25h\x1b[?1049l")
}
