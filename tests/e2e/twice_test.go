package e2e

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// managerAnswers wants the manager to be there, the same as before.
func managerAnswers(t testing.TB) {
	t.Helper()
	if out, err := exec.Command("systemctl", manager(), "is-active", "basic.target").CombinedOutput(); err != nil {
		t.Fatalf("the manager does not answer: %v\n%s", err, out)
	}
}

// The same job twice in one call: one connection references a unit once, since
// twice makes the manager of systemd 247 loop and crash.
func TestSameJobTwice(t *testing.T) {
	w := newWard(t)
	dir := t.TempDir()
	up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
	w.want(0, "start", "-u", "twice", "--", "sh", "-c", until(up, leave, 3))
	exists(t, up)
	for range 10 {
		w.want(0, "status", "twice", "twice.service")
	}
	managerAnswers(t)
	f := w.begin(w.cmd("wait", "twice", "twice.service"))
	touch(t, leave)
	f.status() // the first of two, or both: that is for the verb to say
	managerAnswers(t)
	w.want(3, "wait", "twice")
	// What is let go of can be held again.
	for range 10 {
		w.want(0, "start", "-u", "twice-more", "--", "sleep", "1060")
		w.want(0, "stop", "--grace", "0s", "twice-more", "twice-more.service")
	}
	managerAnswers(t)
}

// A stop whose caller is killed goes on: SIGKILL comes after the grace all the same,
// from the manager or the reaper.
func TestStopKilled(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		up, told := filepath.Join(dir, "up"), filepath.Join(dir, "told")
		w.want(0, "start", "-u", "deserted", "--grace", "3s", "--", "sh", "-c", "trap 'touch "+told+"' TERM; touch "+up+"; while :; do sleep .05; done")
		exists(t, up)
		stop := w.cmd("stop", "deserted")
		if err := stop.Start(); err != nil {
			t.Fatal(err)
		}
		exists(t, told)
		stop.Process.Kill()
		stop.Wait()
		if r := w.report("status", "deserted"); r.get("state") != "stopping" {
			t.Fatalf("the job ended before the grace was over: %s", r.raw)
		}
		w.want(137, "wait", "deserted")
		w.report("status", "deserted").has("reason=cancelled", "exit.signal=KILL", "confirmed=true", "stop.by=stop",
			"stop.steps.0.action=TERM", "stop.steps.0.sufficed=false", "stop.steps.1.action=KILL", "stop.steps.1.sufficed=true")
	})
}
