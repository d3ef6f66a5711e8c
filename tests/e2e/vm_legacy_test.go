package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/verify"
)

// On cgroup v1 alone the manager's word, and the removal of its cgroup, say that a
// unit is empty.
func TestVMLegacy(t *testing.T) {
	needMachine(t, "legacy")
	const why = "no cgroup2 file system is mounted"

	t.Run("refused", func(t *testing.T) {
		w := newWard(t)
		for _, isolation := range []string{verify.IsolationCgroup, verify.IsolationScope} {
			mark := filepath.Join(t.TempDir(), "ran")
			for _, verb := range []string{"run", "start"} {
				a := w.want(125, verb, "--isolation", isolation, "--", "touch", mark)
				if !strings.Contains(a.err, "cannot use isolation "+isolation) || !strings.Contains(a.err, why) {
					t.Errorf("the reason is not told: %s", a)
				}
			}
			if _, err := os.Stat(mark); err == nil {
				t.Errorf("%s: it ran", isolation)
			}
		}
		if left := w.want(0, "--json", "list", "--all").out; left != "[]\n" {
			t.Errorf("records are left: %s", left)
		}
	})
	t.Run("ladder", func(t *testing.T) {
		w := newWard(t)
		a, r := w.withFile("run", "--isolation", "scope,cgroup,group", "--", "sh", "-c", "setsid sleep 3601 & exit 7")
		if a.code != 7 {
			t.Errorf("want status 7 of %s", a)
		}
		r.has("isolation=group", "refused.len=2", "refused.0.what=scope", "refused.1.what=cgroup", "confirmed=true", "tree.empty=true", "exit.code=7")
		for _, refused := range []string{"refused.0.why", "refused.1.why"} {
			if !strings.Contains(r.get(refused), why) {
				t.Errorf("%s is %q", refused, r.get(refused))
			}
		}
		gone(t, 0, "sleep", "3601")
		if a := w.want(0, "doctor"); !strings.Contains(a.out, "no cgroup v2 is mounted") {
			t.Errorf("it is not said what cannot be proven here: %s", a)
		}
	})
	// Nothing is confirmed as long as a process is left.
	t.Run("service", func(t *testing.T) {
		w := newWard(t)
		_, r := w.withFile("run", "--", "sh", "-c", "setsid sleep 3602 & exit 7")
		gone(t, 0, "sleep", "3602")
		r.has("isolation=service", "state=settled", "confirmed=true", "grade=proven", "tree.empty=true", "exit.code=7")
		switch source := r.get("tree.source"); source {
		case `systemd ControlGroup="" after the exit`, "systemd TasksCurrent=0", "cgroup removed, its parent is there":
		default:
			t.Errorf("it is empty by %q", source)
		}

		_, r = w.withFile("run", "-u", "kept", "--leftovers", "keep", "--", "sh", "-c", "setsid sleep 3603 & exit 7")
		alive(t, "sleep", "3603")
		r.has("confirmed=false", "exit.code=7", "tree.empty=false", "missing.len=1", "missing.0.what=empty unit")
		w.want(123, "verify", "kept")
		alive(t, "sleep", "3603")
		w.report("stop", "--grace", "5s", "kept").has("confirmed=true", "tree.empty=true", "exit.code=7")
		gone(t, 0, "sleep", "3603")

		// Its unit remains until this is seen, and no manager of a user counts.
		_, r = w.withFile("run", "--leftovers", "wait", "--", "sh", "-c", "setsid sleep .5 & exit 7")
		r.has("state=settled", "confirmed=true", "tree.empty=true", "exit.code=7")

		// Nobody is left to ask how it ended, and its unit is gone.
		w.want(0, "start", "-u", "ended", "--output", "null", "--", "sh", "-c", "setsid sleep 3606 & exit 7")
		gone(t, patience, "sleep", "3606")
		if left := ""; !eventually(func() bool { left = loadedUnits("ended.service"); return left == "" }) {
			t.Errorf("still loaded: %s", left)
		}
		w.want(7, "wait", "--timeout", "15s", "ended")
		w.report("status", "ended").has("state=settled", "confirmed=true", "exit.code=7", "tree.source=cgroup removed, its parent is there")

		w.want(0, "start", "-u", "paused", "--", "sleep", "3607")
		if a := w.want(125, "pause", "paused"); !strings.Contains(a.err, "the manager freezes no unit here") {
			t.Errorf("the reason is not told: %s", a)
		}
		w.report("status", "paused").has("state=running")
		w.want(0, "stop", "paused")
		gone(t, 0, "sleep", "3607")

		w.want(0, "start", "-u", "stubborn", "--", "sh", "-c", "(trap '' TERM; setsid sleep 3604) & trap '' TERM; exec sleep 3605")
		alive(t, "sleep", "3604")
		alive(t, "sleep", "3605")
		w.report("status", "stubborn").has("state=running", "confirmed=false", "tree.empty=false", "exit.known=false")
		w.report("stop", "--grace", "300ms", "stubborn").has("state=settled", "confirmed=true", "tree.empty=true", "exit.signal=KILL")
		gone(t, 0, "sleep", "3604")
		gone(t, 0, "sleep", "3605")
	})
}
