package e2e

import (
	"os"
	"testing"

	"github.com/unitward/unitward/verify"
)

// What systemd tells of an end is believed, and not what the caller's environment has
// of the same name, such as that of a script of ExecStopPost=.
func TestEndIsNotTheCallers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: only root can run a service as another user, whose environment is in a file of systemd's")
	}
	in(t, []string{verify.IsolationService}, func(t *testing.T, w *ward) {
		w.env = append(os.Environ(), "EXIT_CODE=exited", "EXIT_STATUS=0", "SERVICE_RESULT=success")
		w.want(0, "start", "-u", "told", "--uid", "nobody", "--", "sh", "-c", "exit 9")
		// Nobody has held it: the recorder alone knows.
		if !eventually(func() bool { return loadedUnits("told.service") == "" }) {
			t.Fatal("the manager does not forget the unit")
		}
		w.want(9, "wait", "told")
		w.report("status", "told").has("exit.code=9", "reason=failed")
		w.want(125, "start", "-u", "told-odd", "--uid", "nobody", "-E", "EXIT_STATUS=0", "--", "sh", "-c", "exit 9")
		w.want(3, "run", "-u", "told-run", "--uid", "nobody", "--", "sh", "-c", "exit 3")
	})
}
