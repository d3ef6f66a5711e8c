package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// onSmallDisk puts the state directory on a tmpfs with these limits.
func (w *ward) onSmallDisk(limits string) {
	w.t.Helper()
	if err := os.Mkdir(w.state, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", w.state, "tmpfs", 0, "mode=0700,"+limits); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		w.stopAll()
		if err := unix.Unmount(w.state, unix.MNT_DETACH); err != nil {
			w.t.Error(err)
		}
	})
}

// A disk that becomes full between the first record and its completion. What
// runs by then goes on, and is found by its unit and its nonce; what cannot be
// begun without a file more never runs.
func TestRecordCannotBeCompleted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user: only root can mount a file system of a few files")
	}
	in(t, all, func(t *testing.T, w *ward) {
		// Its root, jobs/, the job's directory and its record: no file more, but for
		// the room of a recorder.
		inodes := map[string]string{verify.IsolationService: "nr_inodes=5"}
		w.onSmallDisk(cmp.Or(inodes[w.isolation], "nr_inodes=4"))
		dir := t.TempDir()
		up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
		a := w.do("start", "-u", "full", "--output", "null", "--", "sh", "-c", until(up, leave, 6))
		if !strings.Contains(a.err, "no space left on device") {
			t.Fatalf("the disk is not full: %s", a)
		}
		if w.isolation != verify.IsolationService {
			if a.code != 125 || a.out != "" {
				t.Errorf("want status 125 of %s", a)
			}
			if isThere(up) {
				t.Error("it ran")
			}
			return
		}
		if a.code != 0 || a.out != "full\n" || !strings.Contains(a.err, "cannot write down that job full runs") {
			t.Errorf("want to be told that it runs, of %s", a)
		}
		exists(t, up)
		w.report("status", "full").has("state=running", "name=full")
		w.want(124, "wait", "--timeout", "1s", "full")
		if list := w.do("list").out; !strings.Contains(list, "full") {
			t.Errorf("it is not listed: %q", list)
		}
		var ran []int // a shell that is about to execute its sleep looks like a second one
		if !eventually(func() bool { ran = processes([]string{"sh", "-c", until(up, leave, 6)}); return len(ran) == 1 }) {
			t.Fatalf("looking at it has ended it, or started it again: %v", ran)
		}
		// With room again it is as any other.
		if err := unix.Mount("", w.state, "", unix.MS_REMOUNT, "nr_inodes=100"); err != nil {
			t.Fatal(err)
		}
		touch(t, leave)
		w.want(6, "wait", "--timeout", "15s", "full")
		w.report("status", "full").has("state=settled", "exit.code=6", "confirmed=true")
	})
}

// A disk that is full by the time a job ends: its exit is written down all the same,
// by its keeper or its recorder.
func TestFullAtEnd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user: only root can mount a file system")
	}
	in(t, all, func(t *testing.T, w *ward) {
		w.onSmallDisk("size=1m")
		dir := t.TempDir()
		up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
		w.want(0, "start", "-u", "full", "--output", "null", "--", "sh", "-c", until(up, leave, 6))
		for _, name := range []string{"released", "reaped"} {
			w.want(0, "start", "-u", name, "--owner", "reaper", "--output", "null", "--", "sh", "-c", until(up, leave, 4))
		}
		exists(t, up)
		if err := os.WriteFile(filepath.Join(w.state, "fill"), make([]byte, 2<<20), 0o600); err == nil {
			t.Fatal("the disk is not full")
		}
		main := alive(t, "sh", "-c", until(up, leave, 6))
		touch(t, leave)
		// By then whoever waits has only what was written down.
		if !eventually(func() bool { _, err := os.Stat(fmt.Sprintf("/proc/%d", main)); return err != nil }) {
			t.Fatal("it does not end")
		}
		w.want(6, "wait", "--timeout", "15s", "full")
		w.want(6, "wait", "--timeout", "15s", "full")
		// What is on record can be removed all the same.
		for _, name := range []string{"released", "reaped"} {
			w.want(4, "wait", "--timeout", "15s", name)
		}
		w.want(0, "release", "released")
		w.want(0, "reap", "--owner", "reaper")
		for _, name := range []string{"released", "reaped"} {
			w.want(125, "status", name)
		}
		if err := os.Remove(filepath.Join(w.state, "fill")); err != nil {
			t.Fatal(err)
		}
		w.report("status", "full").has("state=settled", "exit.code=6", "confirmed=true")
	})
}
