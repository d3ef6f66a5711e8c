package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// foreground is a `unitward run` under way.
type foreground struct {
	t      testing.TB
	cmd    *exec.Cmd
	report string
	// output is a file: a pipe would be held by a job that lives on.
	output string
	ended  chan struct{}
}

func (w *ward) run(args ...string) *foreground {
	w.t.Helper()
	report := filepath.Join(w.t.TempDir(), "report")
	f := w.begin(w.cmd(append([]string{"run", "--report", report}, args...)...))
	f.report = report
	return f
}

// begin starts a program that is killed at the latest when the test ends.
func (w *ward) begin(cmd *exec.Cmd) *foreground {
	w.t.Helper()
	f := &foreground{t: w.t, cmd: cmd, output: filepath.Join(w.t.TempDir(), "output"), ended: make(chan struct{})}
	output, err := os.Create(f.output)
	if err != nil {
		w.t.Fatal(err)
	}
	defer output.Close()
	f.cmd.Stdout, f.cmd.Stderr = output, output
	if err := f.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		f.cmd.Wait()
		close(f.ended)
	}()
	w.t.Cleanup(func() {
		f.cmd.Process.Kill()
		<-f.ended
	})
	return f
}

// said is what came on stdout and stderr.
func (f *foreground) said() string {
	b, _ := os.ReadFile(f.output)
	return string(b)
}

func (f *foreground) signal(s syscall.Signal) {
	f.t.Helper()
	if err := f.cmd.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

// status waits for the end and returns the exit status.
func (f *foreground) status() int {
	f.t.Helper()
	select {
	case <-f.ended:
	case <-time.After(patience):
		f.t.Fatalf("%v does not end", f.cmd.Args)
	}
	return f.cmd.ProcessState.ExitCode()
}

func (f *foreground) wantStatus(want int) {
	f.t.Helper()
	if got := f.status(); got != want {
		f.t.Fatalf("%v: status %d, want %d\n%s", f.cmd.Args, got, want, f.said())
	}
}

// Case 18: a job of lifetime call ends with its call, however that ends.
func TestKilledRun(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		f := w.run("-u", "killed-run", "--", "sh", "-c", "setsid sleep 1018 & exec sleep 1019")
		alive(t, "sleep", "1018")
		alive(t, "sleep", "1019")
		f.signal(syscall.SIGKILL)
		began := time.Now()
		left := func() []int {
			return append(processes([]string{"sleep", "1018"}), processes([]string{"sleep", "1019"})...)
		}
		if !eventually(func() bool { return len(left()) == 0 }) {
			t.Fatalf("there are still %v", left())
		}
		t.Logf("gone after %v", time.Since(began))
		if left := ""; inRig() && !eventually(func() bool { left = loadedUnits("killed-run*", "unitward-guard-*"); return left == "" }) {
			t.Errorf("units are left: %s", left)
		}
		if w.isolation == verify.IsolationCgroup && !eventually(func() bool { return len(jobCgroups("killed-run")) == 0 }) {
			t.Errorf("cgroups are left: %q", jobCgroups("killed-run"))
		}
		// What has lost its command line already is still a process for a moment.
		var r report
		eventually(func() bool {
			r = w.report("verify", "killed-run")
			return r.get("tree.empty") == "true"
		})
		r.has("tree.empty=true")
		switch {
		case w.isolation != verify.IsolationService:
			// The reaper was there to see it.
			r.has("confirmed=true", "exit.signal=KILL")
		case r.get("confirmed") == "true":
			// Its watcher was the only one who could have learned the code.
			r.has("exit.known=true", "exit.signal=TERM")
		}
	})
}

// A job that will not end by TERM ends by KILL after its grace, with nobody
// of unitward left.
func TestKilledRunStubborn(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		f := w.run("-u", "killed-stubborn", "--grace", "500ms", "--", "sh", "-c", `trap "" TERM; exec sleep 1020`)
		alive(t, "sleep", "1020")
		f.signal(syscall.SIGKILL)
		gone(t, patience, "sleep", "1020")
	})
}

// Case 18: a detached job lives on and is found by name with its code.
func TestKilledRunDetached(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
		f := w.run("-u", "killed-detached", "--lifetime", "detached", "--", "sh", "-c", until(up, leave, 6))
		exists(t, up)
		if !eventually(func() bool { return w.report("status", "killed-detached").get("state") == "running" }) {
			t.Fatal("it is not running")
		}
		f.signal(syscall.SIGKILL)
		f.status()
		w.report("status", "killed-detached").has("state=running", "exit.known=false")
		w.want(124, "wait", "--timeout", "1s", "killed-detached")
		touch(t, leave)
		w.want(6, "wait", "--timeout", "15s", "killed-detached")
		w.report("status", "killed-detached").has("state=settled", "confirmed=true", "reason=failed", "exit.code=6")
	})
}

// Case 29: what the job does with a signal decides its code.
func TestForwardedSignals(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for _, c := range []struct {
			name   string
			signal syscall.Signal
			trap   string
			want   int
			reason string
		}{
			{"TERM trapped", syscall.SIGTERM, "trap 'exit 41' TERM", 41, "failed"},
			{"INT trapped", syscall.SIGINT, "trap 'exit 42' INT", 42, "failed"},
			{"HUP trapped", syscall.SIGHUP, "trap 'exit 43' HUP", 43, "failed"},
			{"USR1 trapped", syscall.SIGUSR1, "trap 'exit 0' USR1", 0, "completed"},
			{"TERM", syscall.SIGTERM, ":", 143, "signaled"},
			{"INT", syscall.SIGINT, ":", 130, "signaled"},
			{"HUP", syscall.SIGHUP, ":", 129, "signaled"},
			{"QUIT", syscall.SIGQUIT, "ulimit -c 0", 131, "signaled"},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := w.again(t)
				up := filepath.Join(t.TempDir(), "up")
				f := w.run("--", "sh", "-c", c.trap+"; touch "+up+"; while :; do sleep .03; done")
				exists(t, up)
				f.signal(c.signal)
				f.wantStatus(c.want)
				readReport(t, f.report).has("reason="+c.reason, "confirmed=true", "tree.empty=true")
			})
		}
	})
}

// Case 29: a second SIGINT shortens the grace, a third ends it.
func TestImpatience(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for _, more := range []int{1, 2} {
			t.Run(strconv.Itoa(1+more), func(t *testing.T) {
				w := w.again(t)
				mark := strconv.Itoa(1029 + more)
				f := w.run("--grace", "60s", "--", "sh", "-c", `trap "" INT TERM; exec sleep `+mark)
				alive(t, "sleep", mark)
				f.signal(syscall.SIGINT)
				select {
				case <-f.ended:
					t.Fatalf("one SIGINT ended what ignores it: %s", f.said())
				case <-time.After(300 * time.Millisecond):
				}
				alive(t, "sleep", mark)
				began := time.Now()
				for range more {
					f.signal(syscall.SIGINT)
					time.Sleep(50 * time.Millisecond) // a pending signal would merge with the next
				}
				f.wantStatus(137)
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
				gone(t, 0, "sleep", mark)
				r := readReport(t, f.report)
				r.has("reason=cancelled", "exit.signal=KILL", "confirmed=true", "stop.by=signal", "stop.steps.0.action=TERM", "stop.steps.0.sufficed=false")
				last := len(strings.Split(r.get("stop.steps"), "},{")) - 1
				r.has(fmt.Sprintf("stop.steps.%d.action=KILL", last), fmt.Sprintf("stop.steps.%d.sufficed=true", last))
			})
		}
	})
}

// Case 29: what nohup makes its child ignore stays ignored.
func TestNohup(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.before = []string{"nohup"}
		dir := t.TempDir()
		up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
		f := w.run("--", "sh", "-c", "trap 'exit 99' HUP; "+until(up, leave, 44))
		exists(t, up)
		f.signal(syscall.SIGHUP)
		select {
		case <-f.ended:
			t.Fatalf("SIGHUP ended it: %s", f.said())
		case <-time.After(500 * time.Millisecond):
		}
		touch(t, leave)
		f.wantStatus(44)
		readReport(t, f.report).has("reason=failed", "confirmed=true")
	})
}

// Case 21: a job that kills its parent.
func TestKillsParent(t *testing.T) {
	needRig(t)
	if os.Geteuid() != 0 {
		t.Skip("user: its parent would be the user's own manager, which a job kills in TestDisturbedManagerKilledByJob")
	}
	w := newWard(t)
	f := w.run("--", "sh", "-c", `echo parent $PPID; kill -9 $PPID; exit 3`)
	f.wantStatus(3)
	if !strings.Contains(f.said(), "parent 1\n") {
		t.Errorf("it said %q", f.said())
	}
	readReport(t, f.report).has("reason=failed", "exit.code=3", "confirmed=true")
	if out := shell(t, "systemctl", "show", "-p", "Version"); !strings.Contains(out, "Version=") {
		t.Errorf("the manager says %q", out)
	}
}

// Case 28: a core was dumped where it would be without unitward, and it is said.
func TestCoreDumped(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		command := []string{"sh", "-c", "ulimit -c $(ulimit -Hc); kill -SEGV $$"}
		alone := exec.Command(command[0], command[1:]...)
		alone.Dir = dir
		if err := alone.Run(); alone.ProcessState == nil {
			t.Fatal(err)
		}
		ws, _ := alone.ProcessState.Sys().(syscall.WaitStatus)
		t.Logf("without unitward: %v", alone.ProcessState)
		f := w.run(append([]string{"--working-directory", dir, "--"}, command...)...)
		f.wantStatus(139)
		readReport(t, f.report).has("reason=signaled", "exit.signal=SEGV", "confirmed=true", fmt.Sprintf("exit.core_dumped=%v", ws.CoreDump()))
	})
}
