package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// recordOf is a job's record as it is on disk.
func (w *ward) recordOf(name string) *unit.Record {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.state, "jobs", name, "job.json"))
	var rec unit.Record
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return &rec
}

// A terminal ends with all that is in its cgroup. A started job and its keeper
// are not.
func TestTerminalKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user: only root can make the cgroup of a terminal here")
	}
	in(t, []string{verify.IsolationScope, verify.IsolationCgroup}, func(t *testing.T, w *ward) {
		terminal := filepath.Join(cgroupMount(), fmt.Sprintf("terminal-e2e-%d.scope", os.Getpid()))
		if err := os.Mkdir(terminal, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if !eventually(func() bool { return os.Remove(terminal) == nil }) {
				t.Errorf("%s is left", terminal)
			}
		})
		if _, err := os.Stat(filepath.Join(terminal, "cgroup.kill")); err != nil {
			t.Skipf("cgroup.kill: %v", err)
		}
		dir, err := os.OpenFile(terminal, unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		scratch := t.TempDir()
		up, leave := filepath.Join(scratch, "up"), filepath.Join(scratch, "leave")
		start := w.cmd("start", "-u", "of-terminal", "--output", "null", "--", "sh", "-c", until(up, leave, 6))
		start.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
		if a := w.finish(start); a.code != 0 {
			t.Fatal(a)
		}
		exists(t, up)
		run := w.cmd("run", "-u", "run-of-terminal", "--", "sh", "-c", "sleep 1063 & wait")
		run.SysProcAttr = start.SysProcAttr
		f := w.begin(run)
		alive(t, "sleep", "1063")
		if err := os.WriteFile(filepath.Join(terminal, "cgroup.kill"), []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
		f.status()
		w.ended(w.recordOf("run-of-terminal").Reaper) // killed at the same time, but not gone
		w.report("status", "of-terminal").has("state=running")
		touch(t, leave)
		w.want(6, "wait", "--timeout", "15s", "of-terminal")
		w.report("verify", "of-terminal").has("confirmed=true", "exit.code=6")
		// Of a call nobody is left who could end it, but for the main process,
		// which ends with its reaper: that is seen, and a stop does.
		r := w.report("verify", "run-of-terminal")
		r.has("confirmed=false", "state=unknown", "tree.empty=false")
		w.report("stop", "--grace", "1s", "run-of-terminal").has("tree.empty=true", "confirmed=false", "exit.known=false")
		gone(t, 0, "sleep", "1063")
		if w.isolation == verify.IsolationCgroup && !eventually(func() bool { return len(jobCgroups("of-terminal")) == 0 }) {
			t.Errorf("left are %q", jobCgroups("of-terminal"))
		}
	})
}

// Case 20: a started job outlives its launcher, its shell and its terminal.
func TestOutlivesTerminal(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
		start := w.cmd("start", "-u", "outlives", "--", "sh", "-c", until(up, leave, 6))
		login := exec.Command("sh", append([]string{"-c", `"$@"; echo started; exec cat`, "login"}, start.Args...)...)
		login.Env, login.Dir = start.Env, start.Dir
		s := newSeat(t)
		p := s.begin(login)
		s.shows("outlives\r\nstarted\r\n")
		exists(t, up)
		p.signal(syscall.SIGKILL)
		p.wants(128 + int(syscall.SIGKILL))
		s.slave.Close()
		s.master.Close() // hangs up
		w.report("status", "outlives").has("state=running", "exit.known=false")
		w.want(124, "wait", "--timeout", "300ms", "outlives")
		touch(t, leave)
		w.want(6, "wait", "--timeout", "15s", "outlives")
	})
}

// Two stops at once end a job once, and both say so.
func TestTwoStops(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "two", "--", "sh", "-c", `trap "" TERM; sleep 1064 & while :; do sleep .1; done`)
		alive(t, "sleep", "1064")
		err := inParallel(2, 2, func(int) error {
			a, err := perform(w.cmd("--json", "stop", "--grace", "300ms", "two"))
			if err == nil && a.code != 0 {
				err = fmt.Errorf("want status 0 of %s", a)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		gone(t, 0, "sleep", "1064")
		w.report("status", "two").has("state=settled", "reason=cancelled", "exit.signal=KILL", "confirmed=true", "stop.by=stop")
	})
}

// A wait is for one of the facts.
func TestWaitFor(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		leave := filepath.Join(dir, "leave")
		w.want(0, "start", "-u", "facts", "--leftovers", "wait", "--output", "capture", "--", "sh", "-c", "setsid sh -c '"+until(filepath.Join(dir, "up"), leave, 0)+"' & exit 4")
		exists(t, filepath.Join(dir, "up"))
		w.want(4, "wait", "--for", "exit", "--timeout", "15s", "facts")
		w.want(124, "wait", "--for", "tree", "--timeout", "200ms", "facts")
		w.report("status", "facts").has("state=ended", "exit.code=4", "tree.empty=false", "streams.state=held")
		touch(t, leave)
		w.want(4, "wait", "--for", "tree", "--timeout", "15s", "facts")
		w.want(4, "wait", "--timeout", "15s", "facts")
	})
}

// The streams of a started job are its own: who reads them is not held up by
// the processes that stay with it.
func TestStartStreams(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		leave := filepath.Join(t.TempDir(), "leave")
		c := w.cmd("start", "-q", "-u", "streams", "--stdin", "inherit", "--output", "inherit", "--leftovers", "wait", "--", "sh", "-c",
			"setsid sh -c '"+until("/dev/null", leave, 0)+"' </dev/null >/dev/null 2>&1 & cat; echo error >&2; exit 5")
		c.Stdin = strings.NewReader("through\n")
		r, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		c.Stdout, c.Stderr = wr, wr
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		wr.Close()
		said := make(chan []byte, 1)
		go func() { b, _ := io.ReadAll(r); said <- b }()
		select {
		case b := <-said:
			if string(b) != "through\nerror\n" {
				t.Errorf("it said %q", b)
			}
		case <-time.After(patience):
			t.Fatal("somebody holds the output of a job that has ended")
		}
		w.want(5, "wait", "--for", "exit", "--timeout", "15s", "streams")
		w.report("status", "streams").has("state=ended", "exit.code=5")
		touch(t, leave)
		w.want(5, "wait", "--timeout", "15s", "streams")
	})
}

// Names are the cgroup's and the scope's, to the longest, and with escapes.
func TestKeptNames(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		for _, name := range []string{strings.Repeat("n", 200), `a\x2db`, "cgroup.procs", "memory.max", "tasks", "_x", "a:b_c.d"} {
			w.want(3, "run", "-u", name, "--", "sh", "-c", "exit 3")
			w.report("verify", name).has("confirmed=true", "exit.code=3")
			w.want(0, "start", "-u", name, "--", "sleep", "1066")
			w.report("stop", name).has("confirmed=true", "reason=cancelled")
		}
		gone(t, 0, "sleep", "1066")
	})
}

// Case 34: a limit that does not hold here is told of, or nothing runs.
func TestKeptLimits(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		report := filepath.Join(dir, "report")
		w.want(0, "run", "--report", report, "--memory-max", "300M", "--tasks-max", "77", "--", "true")
		r := readReport(t, report)
		r.has("limits.len=2", "limits.0.name=MemoryMax", "limits.0.asked=300M")
		if w.isolation == verify.IsolationGroup {
			r.has("limits.0.applied=false", "limits.1.applied=false", "limits.0.found=a process group holds no limits")
		}
		for _, verb := range []string{"run", "start"} {
			mark := filepath.Join(dir, verb)
			a := w.do(verb, "-u", "limited-"+verb, "--require-limits", "--memory-max", "300M", "--", "touch", mark)
			if r.get("limits.0.applied") == "true" {
				if a.code != 0 {
					t.Errorf("the limit holds: %s", a)
				}
				exists(t, mark)
				continue
			}
			if a.code != 125 || isThere(mark) {
				t.Errorf("want status 125, and nothing run, of %s (%v)", a, isThere(mark))
			}
			if left := w.do("list", "--all"); strings.Contains(left.out, "limited-"+verb) {
				t.Errorf("a record is left: %s", left)
			}
		}
		var left string
		if !eventually(func() bool {
			left = strings.Join(jobCgroups("limited-"), " ")
			if inRig() {
				left += loadedUnits("limited-*")
			}
			return left == ""
		}) {
			t.Errorf("left are %s", left)
		}
	})
}

// Case 39: a cgroup that is there already is no job's, and stays.
func TestForeignCgroupStays(t *testing.T) {
	in(t, []string{verify.IsolationCgroup}, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "place", "--", "sleep", "1067")
		theirs := filepath.Join(filepath.Dir(cgroupMount()+w.recordOf("place").Identity.Cgroup), "theirs")
		if err := os.Mkdir(theirs, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(theirs) })
		for _, verb := range []string{"run", "start"} {
			if a := w.want(125, verb, "-u", "theirs", "--", "true"); !strings.Contains(a.err, "it exists") {
				t.Errorf("unexpected: %s", a)
			}
		}
		w.do("stop", "theirs")
		w.want(0, "stop", "place")
		if _, err := os.Stat(theirs); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	})
}
