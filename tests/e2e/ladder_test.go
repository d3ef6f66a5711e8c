package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/verify"
)

// Case 42: where a rung does not work the next is taken, and the report says why
// it was not the first. One that is named alone never gives way.
func TestLadderGoesOn(t *testing.T) {
	in(t, []string{verify.IsolationGroup}, func(t *testing.T, w *ward) {
		w.isolation = "" // the options are this test's own
		for name, options := range map[string][]string{
			"no such place": {"--cgroup-parent", "/no/such/cgroup"},
			// From a cgroup of root's no process of a user can get anywhere else.
			"a user in a cgroup of root's": nil,
		} {
			if options == nil && (!inRig() || os.Geteuid() == 0 || os.Getenv(inScope) != "") {
				continue
			}
			report, mark := filepath.Join(t.TempDir(), "report"), filepath.Join(t.TempDir(), "mark")
			args := append([]string{"run", "--report", report, "--isolation", "cgroup,group"}, options...)
			w.want(7, append(args, "--", "sh", "-c", "exit 7")...)
			r := readReport(t, report)
			r.has("isolation=group", "refused.len=1", "refused.0.what=cgroup", "confirmed=true", "exit.code=7")
			if r.get("refused.0.why") == "" {
				t.Errorf("%s: it is not said why: %s", name, r.raw)
			}
			a := w.want(125, append(append([]string{"run", "--isolation", "cgroup"}, options...), "--", "touch", mark)...)
			if _, err := os.Stat(mark); err == nil || !strings.Contains(a.err, "cannot use isolation cgroup") {
				t.Errorf("%s: %s (%v)", name, a, err)
			}
		}
	})
}

// Case 41: kernels that kill at birth what is started by somebody whose own
// cgroup was killed once do so to no job.
func TestCallerOnceKilled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user: only root can make the cgroup of a terminal here")
	}
	in(t, kept, func(t *testing.T, w *ward) {
		terminal := filepath.Join(cgroupMount(), fmt.Sprintf("killed-e2e-%d.scope", os.Getpid()))
		if err := os.Mkdir(terminal, 0o755); err != nil {
			t.Skipf("cgroup: cannot make one: %v", err)
		}
		t.Cleanup(func() {
			if !eventually(func() bool { return os.Remove(terminal) == nil }) {
				t.Errorf("%s is left", terminal)
			}
		})
		if err := os.WriteFile(filepath.Join(terminal, "cgroup.kill"), []byte("1"), 0); err != nil {
			t.Skipf("cgroup.kill: %v", err)
		}
		w.before = []string{"sh", "-c", `echo 0 >` + terminal + `/cgroup.procs && exec "$@"`, "sh"}
		w.want(5, "run", "--", "sh", "-c", "exit 5")
		w.want(0, "start", "-u", "once", "--", "sh", "-c", "exit 6")
		w.before = nil
		w.want(6, "wait", "--timeout", "15s", "once")
	})
}
