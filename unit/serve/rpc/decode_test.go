package rpc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"job.start","params":{"command":["sh","-c","x"],"env":{"A":null,"B":"c"},"output":{"mode":"files","stdout":{"base64":"L3g="}},"grace_ms":5,"nice":-3}}`,
		`{"jsonrpc":"2.0","id":"a","method":"job.list"}`, `[]`, `{}`, `{"id":`, "\xff", `{"jsonrpc":"2.0","id":1,"method":"job.status","params":{"name":"\ud83d\ude00"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"job.status","params":{"name":"\ud83d"}}`, `{"a":1,"a":2}`, `{"jsonrpc":"2.0","id":1,"method":"x","params":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if bytes.IndexByte(line, '\n') >= 0 {
			return // it never sees one
		}
		r, fault := Parse(line)
		if fault != nil {
			if fault.Code == 0 || fault.Kind == "" || len(fault.Message) > 2000 || len(r.ID) > 0 && !json.Valid(r.ID) {
				t.Fatalf("%q: %+v, %q", line, fault, r.ID)
			}
			return
		}
		if !utf8.Valid(line) || r.Method == "" || len(r.ID) > maxID {
			t.Fatalf("%q is taken as %+v", line, r)
		}
		into := &sample{}
		if fault := r.ReadParams(into); fault != nil {
			if fault.Code != CodeParams || fault.Kind != KindParams || len(fault.Message) > 2000 {
				t.Fatalf("%q: %+v", line, fault)
			}
			return
		}
		// What was understood says the same when it is said again.
		b, err := json.Marshal(into)
		again := &sample{}
		if err == nil {
			err = Decode(b, again)
		}
		said, _ := json.Marshal(again)
		if err != nil || !bytes.Equal(said, b) {
			t.Fatalf("%q: %q became %q, %v", line, b, said, err)
		}
	})
}

// sample has a field of every kind that the protocol has.
type sample struct {
	inner
	Command []Text           `json:"command,omitempty"`
	Env     map[string]*Text `json:"env,omitempty"`
	Output  struct {
		Mode   string `json:"mode,omitempty"`
		Stdout *Text  `json:"stdout,omitempty"`
	} `json:"output,omitzero"`
	GraceMS *int64 `json:"grace_ms,omitempty"`
	Nice    int    `json:"nice,omitempty"`
	Name    string `json:"name,omitempty"`
}

type inner struct {
	Deep bool `json:"deep,omitempty"`
}

func TestKeysOfIDs(t *testing.T) {
	for a, b := range map[string]string{`"a"`: `"\u0061"`, `1`: `1`, `""`: `""`} {
		if Key([]byte(a)) != Key([]byte(b)) {
			t.Errorf("%s and %s are two", a, b)
		}
	}
	for a, b := range map[string]string{`"1"`: `1`, `"a"`: `"A"`} {
		if Key([]byte(a)) == Key([]byte(b)) {
			t.Errorf("%s and %s are one", a, b)
		}
	}
}

func TestMangled(t *testing.T) {
	for text, want := range map[string]bool{
		`"\ud83d\ude00"`: false, `"\ud83d"`: true, `"\ude00"`: true, `"\ud83dx"`: true, `"\ud83d\u0061"`: true, `"\\ud83d"`: false, `"\\\ud83d"`: true, `"a\u0000b"`: false, `"\uD83D\uDE00\uD83D"`: true,
	} {
		if got := mangled([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestWhole(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 2, "\xc3": 0, "a\xc3": 1, "\xf0\x9f\x98": 0, "😀": 4, "a\xff": 2, "\x80\x80\x80\x80": 4, "é\xe2\x82": 2, "\xe2x": 2} {
		if got := Whole([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", 20)
	l := NewLines(strings.NewReader("a\r\n\n" + long + "\n" + long[:10] + "\nlast"))
	l.max = 10
	for _, want := range []string{"a", "", "", long[:10], "last"} {
		got, err := l.Next()
		if string(got) != want || (err != nil) != (err == ErrTooLong) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if _, err := l.Next(); err == nil || err == ErrTooLong {
		t.Errorf("%v at the end", err)
	}
}
