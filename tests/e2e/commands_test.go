package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The other commands of a unit are executed in the job's environment, until its end,
// also where the call is killed; and what that was handed over in goes with the unit.
func TestUnitCommands(t *testing.T) {
	needRig(t)
	before := runtimeFiles() // of launchers that other tests have killed
	for _, killed := range []bool{false, true} {
		w := newWard(t)
		said, up := filepath.Join(t.TempDir(), "said"), filepath.Join(t.TempDir(), "up")
		cmd := w.cmd("run", "-u", "commands", "-E", "WORD=bye", "-p", "ExecStop=/bin/cp /proc/self/environ "+said, "--", "sh", "-c", "touch "+up+"; exec sleep 409")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		exists(t, up)
		alive(t, "sleep", "409")
		if killed {
			_ = cmd.Process.Kill()
		} else {
			_ = cmd.Process.Signal(os.Interrupt)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); !killed && code != 130 {
			t.Errorf("status %d, want 130", code)
		}
		var left []string
		if !eventually(func() bool { left = added(before, runtimeFiles()); return len(left) == 0 && isThere(said) }) {
			t.Errorf("files are left: %q", left)
		}
		b, err := os.ReadFile(said)
		if err != nil || !slices.Contains(strings.Split(string(b), "\x00"), "WORD=bye") {
			t.Errorf("it is stopped in the environment %q, %v", b, err)
		}
		if killed && !eventually(func() bool { return w.report("status", "commands").get("state") == "settled" }) {
			t.Errorf("its end is not known: %s", w.report("status", "commands").raw)
		}
	}
}
