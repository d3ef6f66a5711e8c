package e2e

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// What a job hands to another manager leaves its unit, which is empty without
// it. It is named, and neither ended nor waited for.
func TestLeftUnit(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		needRig(t)
		dir := t.TempDir()
		up, leave, scope := filepath.Join(dir, "up"), filepath.Join(dir, "leave"), "left-"+w.isolation+".scope"
		sleep := []string{sleepPath(t), "1120"} // as systemd-run calls it
		t.Cleanup(func() { exec.Command("systemctl", manager(), "stop", scope).Run() })
		w.want(0, "start", "-u", "left", "--output", "capture", "--grace", "30s", "--", "sh", "-c",
			"systemd-run "+manager()+" --scope -q --unit "+scope+" sleep 1120 & "+until(up, leave, 5))
		exists(t, up)
		alive(t, sleep...)
		r := w.report("status", "left")
		if w.isolation == verify.IsolationGroup {
			r.has("left_unit.len=0") // it is all that descends from it
			return
		}
		if !eventually(func() bool { r = w.report("status", "left"); return r.get("left_unit.len") == "1" }) {
			t.Fatalf("it is not named: %s", r.raw)
		}
		r.has("state=running", "left_unit.0.command="+strings.Join(sleep, " "))
		if got := r.get("left_unit.0.cgroup"); !strings.HasSuffix(got, "/"+scope) {
			t.Errorf("it is said to be in %s", got)
		}
		// Each look searches for so long alone.
		var a answer
		if !eventually(func() bool {
			a = w.want(0, "status", "left")
			return strings.Contains(a.out, sleep[0]+" 1120) is in /")
		}) {
			t.Errorf("status does not say it: %s", a)
		}
		touch(t, leave)
		// The end of the unit does not wait for it: the grace is longer than this.
		w.want(5, "wait", "--timeout", "15s", "left")
		w.report("status", "left").has("state=settled", "confirmed=true", "exit.code=5", "tree.empty=true", "left_unit.0.command="+strings.Join(sleep, " "))
		if w.isolation == verify.IsolationService {
			alive(t, sleep...)
		}
	})
}

// The main process itself leaves its unit, as su(1) does, by pam_systemd: it is
// still the job's, and a stop ends it.
func TestMainLeavesUnit(t *testing.T) {
	in(t, []string{verify.IsolationScope, verify.IsolationCgroup}, func(t *testing.T, w *ward) {
		needRig(t)
		for _, deaf := range []bool{false, true} {
			scope := "away-" + w.isolation + ".scope"
			t.Cleanup(func() { exec.Command("systemctl", manager(), "stop", scope).Run() })
			up := filepath.Join(t.TempDir(), "up")
			script, how := "touch "+up+"; exec sleep 1121", "TERM"
			if deaf {
				script, how = "trap '' TERM; touch "+up+"; while :; do sleep 1122; done", "KILL"
			}
			w.want(0, "start", "-u", "away", "--output", "null", "--", "systemd-run", manager(), "--scope", "--collect", "-q", "--unit", scope, "sh", "-c", script)
			exists(t, up)
			a := w.want(0, "stop", "--grace", "300ms", "away")
			if !strings.Contains(a.out, "stopped by "+how) {
				t.Errorf("want it stopped by %s: %s", how, a)
			}
			w.report("status", "away").has("state=settled", "confirmed=true", "exit.signal="+how)
			gone(t, 0, "sleep", "1121")
		}
		w.want(124, "run", "-u", "away-run", "--timeout", "300ms", "--grace", "300ms", "--", "systemd-run", manager(), "--scope", "--collect", "-q", "--unit", "away-run-"+w.isolation+".scope", "sleep", "1123")
		gone(t, 0, "sleep", "1123")
	})
}

// Case 11: the call returns with the exit though what is kept holds its standard
// output, a pipe that is read to its end.
func TestKeptHoldsPipe(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		r, wr, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := w.cmd("run", "-u", "holds-pipe", "-q", "--leftovers", "keep", "--", "sh", "-c", "sleep 1126 & until grep -q sleep /proc/$!/comm; do :; done; echo done; exit 5")
		cmd.Stdout = wr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wr.Close()
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(patience):
			cmd.Process.Kill()
			t.Fatal("the call hangs on the pipe")
		}
		if code := cmd.ProcessState.ExitCode(); code != 5 {
			t.Errorf("status %d, want 5", code)
		}
		// Its main process stays a zombie until its reaper has written down the exit.
		eventually(func() bool { return w.report("status", "holds-pipe").get("tree.members.len") == "1" })
		w.report("status", "holds-pipe").has("state=ended", "exit.code=5", "confirmed=false", "streams.state=held", "tree.members.len=1", "tree.members.0.command=sleep 1126")
		w.want(0, "stop", "holds-pipe")
		if said, err := io.ReadAll(r); err != nil || string(said) != "done\n" {
			t.Errorf("it said %q, %v", said, err)
		}
	})
}

// What ends run while it waits for what its main process has left is sent to that.
func TestSignalToLeftovers(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
			f := w.begin(w.cmd("run", "-u", "left-over", "--leftovers", "wait", "--", "sh", "-c", "setsid sleep 1124 & exit 4"))
			alive(t, "sleep", "1124")
			if !eventually(func() bool { return w.report("status", "left-over").get("exit.known") == "true" }) {
				t.Fatal("its main process does not end")
			}
			if err := f.cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if code := f.status(); code != 4 {
				t.Errorf("after %v the status is %d, want 4", signal, code)
			}
			gone(t, 0, "sleep", "1124")
		}
	})
}

// The record of a process group whose keeper and reaper were killed can be dropped
// by who accepts that a process may hide.
func TestReapWeak(t *testing.T) {
	in(t, []string{verify.IsolationGroup}, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "weak", "--output", "null", "--", "sleep", "1125")
		rec := w.recordOf("weak")
		for _, pid := range []int{rec.Keeper.PID, rec.Reaper.PID, rec.Identity.PID} {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Fatal(err)
			}
		}
		gone(t, patience, "sleep", "1125")
		// Until its new parent has reaped it, it is there.
		var a answer
		if !eventually(func() bool {
			a = w.do("release", "weak")
			return a.code == 125 && strings.Contains(a.err, "--accept-weak")
		}) {
			t.Errorf("no way out: %s", a)
		}
		// What cannot be proven is said, whoever asks.
		for _, verb := range [][]string{{"stop", "weak"}, {"reap"}, {"reap", "--orphans"}} {
			if a := w.want(123, verb...); !strings.Contains(a.err, "cannot confirm the end of job weak") {
				t.Errorf("want what is missing of %s", a)
			}
		}
		if !eventually(func() bool {
			a = w.do("reap", "--orphans", "--accept-weak")
			return a.code == 0 && strings.Contains(a.out, "weak: dropped")
		}) {
			t.Errorf("it stays: %s", a)
		}
		w.want(0, "start", "-u", "weak", "--", "true")
	})
}

// Case 40: once the keepers are killed, a process that has left the group and whose
// environment cannot be read may be the job's: it is named, and nothing is
// confirmed before it has ended. Root can read it, and finds it by its mark.
func TestWeakUnreadable(t *testing.T) {
	in(t, []string{verify.IsolationGroup}, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		hidden, number := filepath.Join(dir, "hidden"), filepath.Join(dir, "pid")
		shell(t, "cp", sleepPath(t), hidden)
		if err := os.Chmod(hidden, 0o111); err != nil { // who may not read the program may not look into the process
			t.Fatal(err)
		}
		w.want(0, "start", "-u", "hides", "--output", "null", "--leftovers", "wait", "--", "sh", "-c", "setsid "+hidden+" 1165 & echo $! >"+number+"; exit 4")
		w.want(4, "wait", "--for", "exit", "--timeout", "15s", "hides")
		var pid int
		if b, err := os.ReadFile(number); err != nil {
			t.Fatal(err)
		} else if _, err := fmt.Sscan(string(b), &pid); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
		if !eventually(func() bool { b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); return string(b) == "hidden\n" }) {
			t.Fatal("it does not run")
		}
		if _, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); (err == nil) != (os.Geteuid() == 0) {
			t.Fatalf("of user %d the environment: %v", os.Geteuid(), err)
		}
		for _, keeper := range w.staying(w.recordOf("hides")) {
			if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		said := fmt.Sprintf(`"looked":"marker scan","said":"could not read: %d (`, pid)
		if os.Geteuid() == 0 {
			said = fmt.Sprintf(`"looked":"marker scan","said":"found: %d (`, pid)
		}
		var a answer
		if !eventually(func() bool {
			a = w.do("--json", "verify", "--accept-weak", "hides")
			return strings.Contains(a.out, said)
		}) {
			t.Errorf("want %s in %s", said, a)
		}
		r := parseReport(t, a.out)
		r.has("confirmed=false", "exit.code=4", "tree.empty=false")
		if a.code != 123 || !strings.Contains(r.get("remedy"), fmt.Sprintf("process %d ", pid)) {
			t.Errorf("want status 123 and a remedy that names %d of %s", pid, a)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if !eventually(func() bool { a = w.do("--json", "verify", "--accept-weak", "hides"); return a.code == 0 }) {
			t.Fatalf("want status 0 of %s", a)
		}
		parseReport(t, a.out).has("confirmed=true", "grade=weak", "exit.code=4", "tree.empty=true")
	})
}
