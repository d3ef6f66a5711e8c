package e2e

import (
	"bufio"
	"bytes"
	"context"
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

// Case 21: the parent of a job's main process is its reaper. One of lifetime
// call ends with it; of another its keeper, or who tends a service whose output is
// captured, takes over, and the code is known.
func TestKillsReaper(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		if w.isolation != verify.IsolationService { // whose parent is the manager: TestKillsParent
			f := w.run("--", "sh", "-c", "setsid sleep 1062 & kill -9 $PPID; sleep 5; exit 3")
			f.wantStatus(137)
			readReport(t, f.report).has("reason=signaled", "exit.signal=KILL", "confirmed=true", "tree.empty=true")
			gone(t, 0, "sleep", "1062")
		}
		w.want(0, "start", "-u", "orphan", "--output", "capture", "--leftovers", "wait", "--", "sh", "-c", "kill -9 $PPID; sleep .2; exit 3")
		w.want(3, "wait", "--timeout", "15s", "orphan")
		w.report("status", "orphan").has("state=settled", "exit.code=3", "confirmed=true", "tree.empty=true")
	})
}

// Case 22 and the keeper's part of case 18: whoever of unitward is killed, a
// detached job goes on, and its code is known as long as one of them lives.
func TestKilledKeepers(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		for _, who := range []string{"keeper", "reaper", "both"} {
			t.Run(who, func(t *testing.T) {
				w := w.again(t)
				dir := t.TempDir()
				up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
				w.want(0, "start", "-u", "alone", "--", "sh", "-c", until(up, leave, 6))
				exists(t, up)
				rec := w.recordOf("alone")
				for _, p := range []struct {
					name string
					unit.Process
				}{{"reaper", rec.Reaper}, {"keeper", rec.Keeper}} {
					if p.name == who || who == "both" {
						if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
							t.Fatal(err)
						}
					}
				}
				r := w.report("status", "alone")
				if who != "both" {
					r.has("state=running", "exit.known=false")
					touch(t, leave)
					w.want(6, "wait", "--timeout", "15s", "alone")
					w.report("verify", "alone").has("confirmed=true", "exit.code=6")
					return
				}
				if !eventually(func() bool { return w.report("status", "alone").get("state") == "unknown" }) {
					t.Errorf("nobody is left to see its exit, and it is %s", w.report("status", "alone").raw)
				}
				if list := w.want(0, "list").out; !strings.Contains(list, "alone  unknown ") {
					t.Errorf("the list says otherwise: %s", list)
				}
				if !zombie(rec.Identity.PID) {
					touch(t, leave)
				} else {
					t.Error("the job ended with its keepers")
				}
				if !eventually(func() bool { return zombie(rec.Identity.PID) }) {
					t.Fatal("the job does not end")
				}
				if !eventually(func() bool {
					r = w.report("verify", "alone")
					return w.isolation == verify.IsolationGroup && strings.Contains(r.get("tree.source"), "weak evidence") || r.get("tree.empty") == "true"
				}) {
					t.Errorf("the end is not seen: %s", r.raw)
				}
				w.report("verify", "alone").has("exit.known=false", "confirmed=false", "reason=unknown")
				// A start that comes to nothing does not take its place.
				if a := w.do("start", "-u", "alone", "--require-limits", "--memory-max", "300M", "--", "true"); a.code == 125 {
					w.report("verify", "alone").has("exit.known=false", "confirmed=false", "reason=unknown")
				}
			})
		}
	})
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

// What stays with a job holds nothing of its caller's: no directory, no
// environment, no descriptor.
func TestKeeperHolds(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		c := w.cmd("start", "-u", "holds", "--output", "inherit", "--", "sleep", "1065")
		c.Dir = dir
		c.Env = append(os.Environ(), "SECRET="+secret)
		held, err := os.Create(filepath.Join(dir, "held"))
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		c.Stdout, c.Stderr, c.ExtraFiles = held, held, []*os.File{held}
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		rec := w.recordOf("holds")
		for name, p := range map[string]unit.Process{"keeper": rec.Keeper, "reaper": rec.Reaper} {
			proc := fmt.Sprintf("/proc/%d/", p.PID)
			if cwd, err := os.Readlink(proc + "cwd"); err != nil || cwd != "/" {
				t.Errorf("the %s is in %s, %v", name, cwd, err)
			}
			if b, err := os.ReadFile(proc + "environ"); err != nil || bytes.Contains(b, []byte(secret)) {
				t.Errorf("the %s has the caller's environment: %q, %v", name, b, err)
			}
			fds, err := os.ReadDir(proc + "fd")
			if err != nil {
				t.Fatal(err)
			}
			for _, fd := range fds {
				if to, _ := os.Readlink(proc + "fd/" + fd.Name()); strings.HasPrefix(to, dir) {
					t.Errorf("the %s holds %s as %s", name, to, fd.Name())
				}
			}
			if sid, err := unix.Getsid(p.PID); err != nil || sid != p.PID {
				t.Errorf("the %s is in session %d, %v", name, sid, err)
			}
		}
		w.want(0, "stop", "holds")
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

// Case 48: in a container whose first process reaps nobody, no zombie is ours but
// the keepers of started jobs, which nobody else could reap: doctor says so.
func TestContainerWithoutInit(t *testing.T) {
	in(t, []string{verify.IsolationCgroup, verify.IsolationGroup}, func(t *testing.T, w *ward) {
		line := func(args ...string) string { return strings.Join(w.cmd(args...).Args, " ") }
		out := withoutInit(t, `
zombies() { grep -l '^State:.Z' /proc/[0-9]*/status; }
(sleep .05 &) # nobody reaps it
until [ "$(zombies | wc -l)" = 1 ]; do sleep .01; done
one=$(zombies)
for i in 1 2 3; do
	`+line("run", "--")+` sh -c '(setsid sh -c "sleep .05" &) ; (setsid sleep 1068 &); exit 3'
	echo status $?
done
[ "$(zombies)" = "$one" ] || grep . $(zombies)
`+line("start", "-q", "-u", "ends", "--")+` sh -c '(setsid sh -c "sleep .05" &) ; (setsid sleep 1068 &); exit 3'
`+line("wait", "-q", "ends")+`
echo status $?
`+line("start", "-q", "-u", "stopped", "--")+` sleep 1068
`+line("stop", "-q", "stopped")+`
echo status $?
while ps -eo stat=,comm= | grep -q '^[^Z].* unitward'; do sleep .01; done
for file in $(zombies); do
	[ $file = $one ] || sed -n 's/^Pid:.//p' $file
done | sort -n
`+line("doctor")+` | sed -n 's/^note: .* PID 1, \([a-z]*\), .*zombie.*/doctor \1/p'
`)
		keepers := []int{w.recordOf("ends").Keeper.PID, w.recordOf("stopped").Keeper.PID}
		want := fmt.Sprintf("%sstatus 0\n%d\n%d\ndoctor cat\n", strings.Repeat("status 3\n", 4), min(keepers[0], keepers[1]), max(keepers[0], keepers[1]))
		if out != want {
			t.Errorf("it said %q, want %q", out, want)
		}
	})
}

// withoutInit runs a shell script in a pid namespace whose first process waits for
// no child, and returns what the script printed.
func withoutInit(t *testing.T, script string) string {
	t.Helper()
	options := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Geteuid() != 0 {
		options = append(options, "--user", "--map-root-user")
		if out, err := exec.Command("unshare", append(options, "true")...).CombinedOutput(); err != nil {
			t.Skipf("user: no namespaces: %v: %s", err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append(options, "sh", "-c", `{ sh -c "$0"; echo end; } 2>&1 & exec cat`, script)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
		said.WriteString(lines.Text() + "\n")
	}
	in.Close() // the first process ends, and all with it
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	return said.String()
}
