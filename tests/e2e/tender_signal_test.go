package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A signal that somebody sends to the main process of a unit is the job's, though
// another process stands before it; one that is sent to all of the unit the job
// gets once, and then that is for all from then on.
func TestTenderPassesSignals(t *testing.T) {
	w := newWard(t)
	got := filepath.Join(t.TempDir(), "got")
	w.want(0, "start", "-u", "passed", "--", "bash", "-c",
		"for s in USR1 USR2 HUP; do trap \"echo $s >>"+got+"\" $s; done; trap 'echo TERM >>"+got+"; exit 8' TERM; echo up >>"+got+"; while :; do read -t .05 <> <(:); done")
	lines := func(want string) {
		t.Helper()
		if !eventually(func() bool { b, _ := os.ReadFile(got); return strings.Join(strings.Fields(string(b)), " ") == want }) {
			b, _ := os.ReadFile(got)
			t.Fatalf("the job got %q, want %q", b, want)
		}
	}
	send := func(who, signal string) {
		t.Helper()
		shell(t, "systemctl", manager(), "kill", "--kill-who="+who, "--signal="+signal, "passed.service")
	}
	lines("up")
	send("main", "USR1")
	lines("up USR1")
	send("all", "USR2")
	lines("up USR1 USR2")
	send("main", "HUP") // who passes it has decided on USR2 before
	lines("up USR1 USR2 HUP")
	send("main", "TERM")
	lines("up USR1 USR2 HUP TERM")
	w.want(8, "wait", "passed")
	w.report("verify", "passed").has("confirmed=true", "exit.code=8", "reason=failed")
}
