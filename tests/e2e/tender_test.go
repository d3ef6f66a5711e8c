package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/unitward/unitward/verify"
)

// The processes between the manager and the job of a service whose output is
// captured are killed. The manager saw the one die, and knows nothing of the
// job, which ends in a way of its own: its exit is unknown then, or its own.
func TestTenderKilled(t *testing.T) {
	in(t, []string{verify.IsolationService}, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		up, code, deaf := filepath.Join(dir, "up"), filepath.Join(dir, "code"), filepath.Join(dir, "deaf")
		w.want(0, "start", "-u", "tended", "--", "setpriv", "--pdeathsig", "clear", "sh", "-c",
			"trap ': >"+code+"; exit 7' TERM; touch "+up+"; while :; do sleep .02; done")
		exists(t, up)
		main, err := strconv.Atoi(w.report("status", "tended").get("pid"))
		if err != nil {
			t.Fatal(err)
		}
		reaper, err := parentOf(main)
		if err != nil {
			t.Fatal(err)
		}
		tender, err := parentOf(reaper)
		if err != nil || tender <= 1 {
			t.Fatalf("process %d has the parent %d: %v", reaper, tender, err)
		}
		for _, pid := range []int{tender, reaper} {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Fatal(err) // the manager ends the reaper, too
			}
		}
		a := w.do("wait", "--timeout", "15s", "tended")
		switch r := w.report("status", "tended"); r.get("confirmed") {
		case "true":
			want, exit := 137, "exit.signal=KILL" // its reaper still had the time to
			if isThere(code) {
				want, exit = 7, "exit.code=7"
			}
			r.has(exit)
			if a.code != want {
				t.Errorf("want status %d of %s", want, a)
			}
		default:
			r.has("state=unknown", "exit.known=false", "tree.empty=true", "reason=unknown")
			if a.code != 123 {
				t.Errorf("want status 123 of %s", a)
			}
		}
		w.do("reap")

		// Where all of it is killed, so is the job.
		for _, end := range [][]string{{"kill", "-s", "KILL", "--who", "all"}, {"stop", "--grace", "0s"}} {
			w.want(0, "start", "-u", "all", "--", "setpriv", "--pdeathsig", "clear", "sh", "-c", "trap '' TERM; touch "+deaf+"; while :; do sleep .02; done")
			exists(t, deaf)
			if err := os.Remove(deaf); err != nil {
				t.Fatal(err)
			}
			w.want(0, append(end, "all")...)
			w.want(137, "wait", "--timeout", "15s", "all")
			w.report("status", "all").has("confirmed=true", "exit.signal=KILL")
		}
	})
}
