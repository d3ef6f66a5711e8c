package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/verify"
)

// A paused job is shown as such, to people in the place of its state.
func TestPausedIsShown(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		up := filepath.Join(t.TempDir(), "up")
		w.want(0, "start", "-u", "shown", "--", "sh", "-c", "touch "+up+"; while :; do sleep .03; done")
		exists(t, up)
		shows := func(state string) bool {
			return strings.Contains(w.do("list").out, "  "+state+"  ") && strings.Contains(w.do("status", "shown").out, "state  "+state+"\n")
		}
		if !eventually(func() bool { return shows("running") }) {
			t.Fatalf("before it: %s", w.do("status", "shown"))
		}
		w.want(0, "pause", "shown")
		if !eventually(func() bool { return shows("paused") }) {
			t.Errorf("paused: %s%s", w.do("list"), w.do("status", "shown"))
		}
		w.report("status", "shown").has("state=running", "paused=true")
		w.want(0, "resume", "shown")
		if !eventually(func() bool { return shows("running") }) {
			t.Errorf("resumed: %s%s", w.do("list"), w.do("status", "shown"))
		}
		if rep := w.report("status", "shown"); strings.Contains(rep.raw, "paused") {
			t.Errorf("resumed: %s", rep.raw)
		}
		w.want(0, "pause", "shown")
		w.want(0, "stop", "--grace", "5s", "shown")
		if a := w.want(0, "list", "--all"); strings.Contains(a.out, "paused") {
			t.Errorf("ended: %s", a)
		}
	})
}

// KILL to all of a job that forks ends it, whoever sends it: a manager before
// systemd 250 would go after each process while others are born.
func TestKillAllOfForking(t *testing.T) {
	in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
		up := filepath.Join(t.TempDir(), "up")
		w.want(0, "start", "-u", "forking", "--", "bash", "-c", "touch "+up+"; while :; do (sleep .01; setsid sleep 1243) & sleep .002; done")
		exists(t, up)
		w.want(0, "kill", "-s", "KILL", "--who", "all", "forking")
		w.want(137, "wait", "forking")
		w.report("verify", "forking").has("confirmed=true", "exit.signal=KILL")
		managerAnswers(t)
	})
}

// A paused job that is stopped gets its grace: it is let go on, to heed the
// signal.
func TestStopOfPaused(t *testing.T) {
	w := newWard(t)
	dir := t.TempDir()
	up, heeded := filepath.Join(dir, "up"), filepath.Join(dir, "heeded")
	script := "trap ': >" + heeded + "; exit 31' TERM; touch " + up + "; while :; do sleep .03; done"
	w.want(0, "start", "-u", "paused", "--grace", "15s", "--", "sh", "-c", script)
	exists(t, up)
	w.want(0, "pause", "paused")
	w.want(0, "stop", "paused")
	exists(t, heeded)
	w.report("status", "paused").has("reason=cancelled", "exit.code=31", "stop.steps.len=1", "stop.steps.0.action=TERM", "stop.steps.0.sufficed=true")
	// A grace that is longer than the job's own goes another way.
	dir = t.TempDir()
	up, heeded = filepath.Join(dir, "up"), filepath.Join(dir, "heeded")
	script = "trap ': >" + heeded + "; exit 32' TERM; touch " + up + "; while :; do sleep .03; done"
	w.want(0, "start", "-u", "paused-long", "--grace", "1s", "--", "sh", "-c", script)
	exists(t, up)
	w.want(0, "pause", "paused-long")
	w.want(0, "stop", "--grace", "15s", "paused-long")
	w.report("status", "paused-long").has("exit.code=32", "stop.steps.len=1", "stop.steps.0.sufficed=true")
}

// The timeout of a paused job whose call waits for it.
func TestTimeoutOfPaused(t *testing.T) {
	w := newWard(t)
	dir := t.TempDir()
	up, heeded := filepath.Join(dir, "up"), filepath.Join(dir, "heeded")
	script := "trap ': >" + heeded + "; exit 33' TERM; touch " + up + "; while :; do sleep .03; done"
	f := w.run("-u", "paused-timeout", "--timeout", "3s", "--grace", "15s", "--", "sh", "-c", script)
	exists(t, up)
	if !eventually(func() bool { return w.report("status", "paused-timeout").get("state") == "running" }) {
		t.Fatal("its start is not recorded")
	}
	w.want(0, "pause", "paused-timeout")
	f.wantStatus(124)
	exists(t, heeded)
	readReport(t, f.report).has("reason=timeout", "exit.code=33", "confirmed=true")
}
