package e2e

import (
	"path/filepath"
	"testing"
)

// A paused job that is stopped gets its grace: it is let go on, to heed the
// signal.
func TestStopOfPaused(t *testing.T) {
	w := newWard(t)
	dir := t.TempDir()
	up, heeded := filepath.Join(dir, "up"), filepath.Join(dir, "heeded")
	script := "trap 'touch " + heeded + "; exit 31' TERM; touch " + up + "; while :; do sleep .03; done"
	w.want(0, "start", "-u", "paused", "--grace", "15s", "--", "sh", "-c", script)
	exists(t, up)
	w.want(0, "pause", "paused")
	w.want(0, "stop", "paused")
	exists(t, heeded)
	w.report("status", "paused").has("reason=cancelled", "exit.code=31", "stop.steps.len=1", "stop.steps.0.action=TERM", "stop.steps.0.sufficed=true")
	// A grace that is longer than the job's own goes another way.
	dir = t.TempDir()
	up, heeded = filepath.Join(dir, "up"), filepath.Join(dir, "heeded")
	script = "trap 'touch " + heeded + "; exit 32' TERM; touch " + up + "; while :; do sleep .03; done"
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
	script := "trap 'touch " + heeded + "; exit 33' TERM; touch " + up + "; while :; do sleep .03; done"
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
