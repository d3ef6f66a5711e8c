package keeper

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestReadRecord(t *testing.T) {
	exit := Exit{true, 0x8b, time.Unix(0, 1234567890123456789), 15, 2048}
	at := time.Unix(0, 99)
	for _, c := range []struct {
		in   string
		want Recorded
		err  bool
	}{
		{"", Recorded{}, false},
		{"exit 139 1234567890123456789 15 2048 end\n", Recorded{Exit: exit}, false},
		{"exit 139 1234567890123456789 15 2048 end\nchildless 99 end\n", Recorded{exit, at}, false},
		{"childless 99 end\n", Recorded{ChildlessAt: at}, false},
		// Torn ones.
		{"exit 139 1234567890123456789 15 2048 end", Recorded{}, false},
		{"exit 139 1234567890123456789 15 20\nchildless 99 end\n", Recorded{ChildlessAt: at}, false},
		{"exit 139 1234567890123456789 15 2048 end\nchildl", Recorded{Exit: exit}, false},
		// None of ours.
		{"exit 139 1234567890123456789 15 end\n", Recorded{}, true},
		{"exit 65536 1 1 1 end\n", Recorded{}, true},
		{"exit -1 1 1 1 end\n", Recorded{}, true},
		{"exit x 1 1 1 end\n", Recorded{}, true},
		{"childless end\n", Recorded{}, true},
		{"exit 1 1 1 1 2 end\n", Recorded{}, true},
		{"exi 139 1 1 1 end\n", Recorded{}, true},
	} {
		got, err := ReadRecord(strings.NewReader(c.in))
		if got != c.want || (err != nil) != c.err {
			t.Errorf("ReadRecord(%q) = %+v, %v", c.in, got, err)
		}
	}
}

func TestRecord(t *testing.T) {
	file := t.TempDir() + "/record"
	c := shell("exit 5")
	c.Record = appendTo(t, file)
	r := started(t, subreaper(t), c)
	e := ended(t, r)
	childless(t, r)
	w := recorded(t, file)
	if w.Exit.Status != e.Status || !w.Exit.At.Equal(e.At) || w.Exit.CPU != e.CPU || w.Exit.MaxRSS != e.MaxRSS || !w.ChildlessAt.Equal(r.ChildlessAt()) {
		t.Errorf("the record is %+v, want %+v and %v", w, e, r.ChildlessAt())
	}
}

// A line that cannot be written whole, here for the limit on the size of
// files, is no false one, and holds nothing up.
func TestRecordTorn(t *testing.T) {
	s := subreaper(t)
	file := t.TempDir() + "/record"
	c, open := gated(t, "setsid sleep 1000 & exit 5")
	c.Record = appendTo(t, file)
	r := started(t, s, c)
	var before unix.Rlimit
	if err := unix.Prlimit(r.PID(), unix.RLIMIT_FSIZE, nil, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(r.PID(), unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 12, Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	open()
	ended(t, r)
	waitFor(t, func() bool { b, _ := os.ReadFile(file); return len(b) == 12 })
	if w := recorded(t, file); w.Exit.Known {
		t.Errorf("the record is %+v", w)
	}
	if err := unix.Prlimit(r.PID(), unix.RLIMIT_FSIZE, &before, nil); err != nil {
		t.Fatal(err)
	}
	r.End()
	childless(t, r)
	if w := recorded(t, file); w.Exit.Known || !w.ChildlessAt.Equal(r.ChildlessAt()) {
		t.Errorf("the record is %+v", w)
	}
}

func appendTo(t *testing.T, file string) *os.File {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func FuzzReadRecord(f *testing.F) {
	f.Add("exit 139 1234567890123456789 15 2048 end\nchildless 99 end\n")
	f.Fuzz(func(t *testing.T, s string) {
		w, err := ReadRecord(strings.NewReader(s))
		if err != nil && (w.Exit.Known || !w.ChildlessAt.IsZero()) {
			t.Errorf("%q: %+v with %v", s, w, err)
		}
	})
}
