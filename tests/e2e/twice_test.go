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
