package e2e

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The tests named TestVM need a machine of their own: its kernel, and its control
// groups. UNITWARD_VM says how those are mounted: unified, which has every
// controller on cgroup v2, hybrid or legacy.

// needMachine ends a test that is in no emulated machine, or in one whose control
// groups are not as the test wants them.
func needMachine(t *testing.T, hierarchies ...string) {
	t.Helper()
	have := os.Getenv("UNITWARD_VM")
	if have == "" {
		t.Skip("vm: needs an emulated machine; make test-vm has them")
	}
	if len(hierarchies) > 0 && !slices.Contains(hierarchies, have) {
		t.Skipf("hierarchy: it is %s here, and this is for %s", have, strings.Join(hierarchies, " and "))
	}
}

func newMachineWard(t *testing.T) *ward {
	t.Helper()
	needMachine(t)
	return newWard(t)
}

// inMachine is in for an emulated machine.
func inMachine(t *testing.T, isolations []string, test func(t *testing.T, w *ward)) {
	t.Helper()
	needMachine(t)
	in(t, isolations, test)
}

// TestVMUserScope is TestUserScope for an emulated machine.
func TestVMUserScope(t *testing.T) {
	needMachine(t, "unified", "hybrid")
	userScope(t, os.Getenv("UNITWARD_TEST_USER_RUN"), "^TestDisturbed")
}

// TestVMHierarchy holds a machine to its name.
func TestVMHierarchy(t *testing.T) {
	needMachine(t)
	want := map[string]string{"unified": "/sys/fs/cgroup", "hybrid": "/sys/fs/cgroup/unified", "legacy": ""}
	if at, ok := want[os.Getenv("UNITWARD_VM")]; !ok || cgroupMount() != at {
		t.Errorf("this machine is %q, and cgroup v2 is mounted at %q, want %q", os.Getenv("UNITWARD_VM"), cgroupMount(), at)
	}
}

// TERM is ignored by all: KILL ends them, with cgroup.kill or without.
func TestVMStubborn(t *testing.T) {
	inMachine(t, all, func(t *testing.T, w *ward) {
		const stubborn = `trap '' TERM; (trap '' TERM; while :; do sleep 3503; done) & setsid sleep 3504 & while :; do sleep 3503; done`
		w.want(0, "start", "-u", "stubborn", "--", "bash", "-c", stubborn)
		alive(t, "sleep", "3504")
		if !eventually(func() bool { return len(processes([]string{"sleep", "3503"})) == 2 }) {
			t.Fatal("the job is not up")
		}
		w.report("stop", "--grace", "300ms", "stubborn").has("state=settled", "confirmed=true", "exit.signal=KILL",
			"stop.steps.len=2", "stop.steps.1.action=KILL", "stop.steps.1.sufficed=true")
		gone(t, 0, "sleep", "3503")
		gone(t, 0, "sleep", "3504")
		gone(t, 0, "bash", "-c", stubborn)
	})
}

// Case 43: no signal ends what sleeps uninterruptibly. A stop says so, in
// time, and the proof comes when it wakes.
func TestVMUninterruptible(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: only root can mount what hangs")
	}
	// A stop's own bound after KILL is 5 s.
	const grace, bound = time.Second, 5 * time.Second
	// Emulated, and the host may have other work: what is told from it is a stop that
	// waits for the minute of the unit's own grace.
	const slack = 40 * time.Second

	stopped := func(t *testing.T, w *ward, name, hung string) {
		t.Helper()
		pid := alive(t, "cat", hung)
		start := time.Now()
		a := w.do("--json", "stop", "--grace", grace.String(), name)
		if took := time.Since(start); took > grace+bound+slack {
			t.Errorf("stop took %v", took)
		}
		if a.code != 123 {
			t.Errorf("want status 123 of %s", a)
		}
		r := parseReport(t, a.out)
		r.has("state=stopping", "confirmed=false", "tree.empty=false", "tree.members.len=1",
			"tree.members.0.pid="+strconv.Itoa(pid), "tree.members.0.state=D", "tree.members.0.command=cat "+hung,
			"stop.steps.len=2", "stop.steps.1.action=KILL", "stop.steps.1.sufficed=false")
		// Debian's 5.10 has no symbols to name it by and says "0".
		if b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/wchan"); len(b) > 0 && string(b) != "0" {
			if wchan := r.get("tree.members.0.wchan"); !strings.Contains(wchan, "fuse") && !strings.Contains(wchan, "request_wait") {
				t.Errorf("wchan is %q, the kernel says %q", wchan, b)
			}
		}
		for _, part := range []string{strconv.Itoa(pid), "uninterruptible", "unitward verify " + name} {
			if !strings.Contains(r.get("remedy"), part) {
				t.Errorf("the remedy does not have %q: %s", part, r.get("remedy"))
			}
		}
		w.want(123, "verify", name)
	}

	t.Run("main", func(t *testing.T) {
		t.Parallel() // they wait, mostly
		w := newMachineWard(t)
		f := mountHung(t)
		w.want(0, "start", "-u", "hungmain", "--grace", "1min", "--", "sh", "-c", "trap '' TERM; exec cat "+f.file())
		f.await()
		stopped(t, w, "hungmain", f.file())
		f.thaw()
		gone(t, patience, "cat", f.file())
		// The recorder still has to run, in an emulated machine.
		if !eventually(func() bool { return w.do("verify", "hungmain").code == 0 }) {
			w.want(0, "verify", "hungmain")
		}
		w.report("status", "hungmain").has("state=settled", "confirmed=true", "exit.signal=KILL", "reason=cancelled")
	})
	t.Run("child", func(t *testing.T) {
		t.Parallel() // they wait, mostly
		w := newMachineWard(t)
		f := mountHung(t)
		w.want(0, "start", "-u", "hungchild", "--grace", "1min", "--", "sh", "-c", "cat "+f.file()+" & sleep 3509")
		f.await()
		alive(t, "sleep", "3509")
		stopped(t, w, "hungchild", f.file())
		w.report("status", "hungchild").has("exit.known=true", "exit.signal=TERM")
		f.thaw()
		gone(t, patience, "cat", f.file())
		if !eventually(func() bool { return w.do("verify", "hungchild").code == 0 }) {
			w.want(0, "verify", "hungchild")
		}
		w.report("status", "hungchild").has("state=settled", "confirmed=true", "exit.signal=TERM", "reason=cancelled")
	})
	// The manager gives up before the process wakes, and forgets it.
	t.Run("given up", func(t *testing.T) {
		t.Parallel() // they wait, mostly
		w := newMachineWard(t)
		f := mountHung(t)
		w.want(0, "start", "-u", "hunglong", "--grace", "500ms", "--", "cat", f.file())
		f.await()
		w.report("stop", "--grace", "100ms", "hunglong").has("confirmed=false")
		active := func() string {
			return strings.TrimSpace(shell(t, "systemctl", manager(), "show", "-p", "ActiveState", "--value", "hunglong.service"))
		}
		if !eventually(func() bool { s := active(); return s == "failed" || s == "inactive" }) {
			t.Fatalf("the manager does not give up: %s", active())
		}
		w.report("status", "hunglong").has("confirmed=false", "tree.empty=false", "tree.members.0.state=D")
		f.thaw()
		gone(t, patience, "cat", f.file())
		var r report
		if !eventually(func() bool { r = w.report("verify", "hunglong"); return r.get("state") != "stopping" }) {
			t.Fatalf("the manager does not answer: %s", r.raw)
		}
		r.has("tree.empty=true")
		if r.get("exit.known") == "true" {
			r.has("exit.signal=KILL", "confirmed=true")
		} else {
			r.has("confirmed=false", "reason=unknown")
		}
	})
}
