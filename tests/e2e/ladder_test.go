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
	in(t, kept, func(t *testing.T, w *ward) {
		w.before = fromKilledCgroup(t)
		w.want(5, "run", "--", "sh", "-c", "exit 5")
		w.want(0, "start", "-u", "once", "--", "sh", "-c", "exit 6")
		w.before = nil
		w.want(6, "wait", "--timeout", "15s", "once")
	})
}

// fromKilledCgroup begins a command line of somebody in a cgroup that was killed,
// below the top for root, and below one that is this user's for others.
func fromKilledCgroup(t *testing.T) []string {
	t.Helper()
	const join = ` && echo 1 >"$d/cgroup.kill" && echo 0 >"$d/cgroup.procs" && exec "$@"`
	mount, name := cgroupMount(), fmt.Sprintf("killed-e2e-%d.scope", os.Getpid())
	if mount == "" {
		t.Skip("cgroup2: none is mounted here")
	}
	if kill, _ := filepath.Glob(mount + "/*/cgroup.kill"); len(kill) == 0 {
		t.Skip("cgroup.kill: this kernel has none")
	}
	if noCgroup() != "" {
		needRig(t)
		return []string{"systemd-run", "--user", "--scope", "--collect", "--quiet", "--",
			"sh", "-c", `d=` + mount + `$(sed -n s/^0:://p /proc/self/cgroup)/` + name + ` && mkdir "$d"` + join, "sh"}
	}
	if os.Geteuid() != 0 {
		mount = ownCgroup()
	}
	terminal := filepath.Join(mount, name)
	if err := os.Mkdir(terminal, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !eventually(func() bool { return os.Remove(terminal) == nil }) {
			t.Errorf("%s is left", terminal)
		}
	})
	return []string{"sh", "-c", `d=` + terminal + join, "sh"}
}

// In a container that has the host's manager at hand but not its process numbers, that
// manager would put others' processes into units, and end them.
func TestManagerOfAnotherPIDNamespace(t *testing.T) {
	needRig(t)
	if os.Geteuid() != 0 {
		t.Skip("user: only root makes pid namespaces in the rig")
	}
	in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
		before := ownCgroup()
		report := filepath.Join(t.TempDir(), "report")
		auto := *w
		auto.isolation = ""
		said := withoutInit(t, strings.Join(w.cmd("run", "--", "true").Args, " ")+"\necho status $?\n"+
			strings.Join(auto.cmd("run", "--report", report, "--", "false").Args, " ")+"\necho status $?\n")
		if want := "outside of this pid namespace"; !strings.Contains(said, "status 125") || !strings.Contains(said, want) || !strings.Contains(said, "status 1\n") {
			t.Errorf("it said %q, want status 125 with %q, and then status 1", said, want)
		}
		r := readReport(t, report)
		if got := r.get("isolation"); got != verify.IsolationCgroup && got != verify.IsolationGroup {
			t.Errorf("the isolation is %s", got)
		}
		if why := r.get("refused.0.why"); r.get("refused.0.what") != verify.IsolationService || !strings.Contains(why, "pid namespace") {
			t.Errorf("refused is %s", r.get("refused"))
		}
		if now := ownCgroup(); now != before {
			t.Errorf("this process was in %s and is in %s", before, now)
		}
	})
}
