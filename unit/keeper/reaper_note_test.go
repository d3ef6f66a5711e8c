package keeper

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a reaper tells of is on record: whoever was told may have another process
// look it up.
func TestReaperWritesBeforeItTells(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	size, err := unix.FcntlInt(w.Fd(), unix.F_GETPIPE_SZ, 0) // Fd makes it wait, as a reaper does
	if err != nil {
		t.Fatal(err)
	}
	full := make([]byte, size)
	if _, err := w.Write(full); err != nil {
		t.Fatal(err)
	}
	c := shell("exit 5")
	c.Record = w
	p := started(t, subreaper(t), c)
	select {
	case <-p.Exited():
		t.Error("the exit was told before it was written down")
	case <-time.After(100 * time.Millisecond):
	}
	if _, err := r.Read(full); err != nil {
		t.Fatal(err)
	}
	if e := ended(t, p); e.Status.ExitStatus() != 5 {
		t.Errorf("the exit is %+v", e)
	}
	said := make([]byte, 1024)
	if n, err := r.Read(said); err != nil || !strings.HasPrefix(string(said[:n]), "exit 1280 ") {
		t.Errorf("%q was written, %v", said[:n], err)
	}
}
