package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
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

// delegated says whether the manager can give a controller of cgroup v2 to its
// units.
func delegated(t testing.TB, controller string) bool {
	t.Helper()
	dir := cgroupMount()
	if dir == "" {
		return false
	}
	if uid := os.Geteuid(); uid != 0 {
		dir += fmt.Sprintf("/user.slice/user-%d.slice/user@%d.service", uid, uid)
	}
	b, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil {
		t.Fatal(err)
	}
	return slices.Contains(strings.Fields(string(b)), controller)
}

// cgroupFile reads a file of a job's cgroup; it is empty when there is none.
func cgroupFile(r report, name string) string {
	b, _ := os.ReadFile(filepath.Join(cgroupMount(), r.get("cgroup"), name))
	return strings.TrimSpace(string(b))
}

// withFile runs the program and reads the report that it wrote to a file.
func (w *ward) withFile(verb string, args ...string) (answer, report) {
	w.t.Helper()
	file := filepath.Join(w.t.(*testing.T).TempDir(), "report")
	a := w.do(append([]string{verb, "--report", file}, args...)...)
	if b, err := os.ReadFile(file); err != nil || len(b) == 0 {
		w.t.Fatalf("no report (%v) of %s", err, a)
	}
	return a, readReport(w.t, file)
}

// Case 33: where memory is out, the job dies, and nothing else.
func TestVMOOM(t *testing.T) {
	needMachine(t, "unified")
	inMachine(t, all[:3], func(t *testing.T, w *ward) {
		const doubling = `x=0123456789abcdef; while :; do x=$x$x; done`
		for _, c := range []struct {
			name    string
			command []string
			exit    []string
		}{
			{"main", []string{"sh", "-c", doubling}, []string{"exit.signal=KILL"}},
			{"child", []string{"sh", "-c", "sleep 3301 & sh -c '" + doubling + "'; wait"}, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := w.again(t)
				w.want(0, "start", "-u", "bystander", "--", "sleep", "3302")
				if w.isolation == "scope" && systemdVersion() < scopeOOM {
					outOfMemoryUntold(w, c.command)
					return
				}
				a, r := w.withFile("run", append([]string{"--memory-max", "64M", "--require-limits", "--"}, c.command...)...)
				if a.code != 137 && (c.exit != nil || a.code == 0 || a.code == 123) {
					t.Errorf("want status 137 of %s", a)
				}
				r.has(append(c.exit, "state=settled", "reason=oom", "confirmed=true", "tree.empty=true", "exit.known=true",
					"limits.len=1", "limits.0.name=MemoryMax", "limits.0.applied=true", "limits.0.found=67108864")...)
				gone(t, 0, "sleep", "3301")
				alive(t, "sleep", "3302")
				w.report("status", "bystander").has("state=running")
				w.want(0, "stop", "bystander")
			})
		}
	})
}

// scopeOOM is a systemd whose manager ends a scope in which memory was out, and
// says so. That of 247 does not, and a job's keeper has no claim on a cgroup of
// the manager's.
const scopeOOM = 252

func outOfMemoryUntold(w *ward, command []string) {
	w.t.Helper()
	a, r := w.withFile("run", append([]string{"--memory-max", "64M", "--timeout", "10s", "--require-limits", "--"}, command...)...)
	r.has("state=settled", "confirmed=true", "tree.empty=true", "exit.known=true", "limits.0.found=67108864")
	switch reason := r.get("reason"); {
	case a.code == 137 && reason == "signaled" && r.get("exit.signal") == "KILL": // the main process was killed
	case a.code == 124 && reason == "timeout": // one of its children was, and it waited for another
	default:
		w.t.Errorf("reason %s of %s", reason, a)
	}
	gone(w.t, 0, "sleep", "3301")
	alive(w.t, "sleep", "3302")
	w.want(0, "stop", "bystander")
}

// A fork bomb: every process becomes two, for ever.
const bomb = `f() { f | f & }; f; exec sleep 3501`

// Case 35: a fork bomb stays within its limit, and is ended.
func TestVMTasks(t *testing.T) {
	needMachine(t, "unified")
	inMachine(t, all[:3], func(t *testing.T, w *ward) {
		limited := []string{"limits.0.name=TasksMax", "limits.0.applied=true", "limits.0.found=64"}
		ended := append([]string{"state=settled", "confirmed=true", "tree.empty=true"}, limited...)
		t.Run("timeout", func(t *testing.T) {
			w := w.again(t)
			a, r := w.withFile("run", "--tasks-max", "64", "--require-limits", "--timeout", "1s", "--grace", "1s", "--", "bash", "-c", bomb)
			if a.code != 124 {
				t.Errorf("want status 124 of %s", a)
			}
			r.has(append(ended, "reason=timeout")...)
			gone(t, 0, "sleep", "3501")
			gone(t, 0, "bash", "-c", bomb)
		})
		t.Run("leftovers", func(t *testing.T) {
			w := w.again(t)
			bomb := strings.ReplaceAll(bomb, "exec sleep 3501", "exit 3")
			a, r := w.withFile("run", "--tasks-max", "64", "--grace", "1s", "--", "bash", "-c", bomb)
			if a.code != 3 {
				t.Errorf("want status 3 of %s", a)
			}
			r.has("state=settled", "confirmed=true", "tree.empty=true", "exit.code=3", "limits.0.name=TasksMax", "limits.0.applied=true")
			// The main process may be gone before the file can be read.
			if found := r.get("limits.0.found"); found != "64" && found != "not read: the job ended first" {
				t.Errorf("limits.0.found is %q", found)
			}
			gone(t, 0, "bash", "-c", bomb)
		})
		t.Run("stop", func(t *testing.T) {
			w := w.again(t)
			bomb := "trap '' TERM; " + bomb
			w.want(0, "start", "-u", "bomb", "--tasks-max", "64", "--grace", "30s", "--", "bash", "-c", bomb)
			r := w.report("status", "bomb")
			r.has(append(limited, "state=running")...)
			// The kernel counts the forks that it refused.
			if !eventually(func() bool {
				return strings.HasPrefix(cgroupFile(r, "pids.events"), "max ") && cgroupFile(r, "pids.events") != "max 0"
			}) {
				t.Fatalf("the bomb does not reach its limit: pids.current %s, pids.events %s", cgroupFile(r, "pids.current"), cgroupFile(r, "pids.events"))
			}
			if n, err := strconv.Atoi(cgroupFile(r, "pids.current")); err != nil || n > 64 {
				t.Errorf("%d tasks, want 64 at most (%v)", n, err)
			}
			// Who keeps its output is in the same unit, and goes on all the same.
			w.report("status", "bomb").has("state=running", "exit.known=false")
			w.report("stop", "--grace", "1s", "bomb").has(append(ended, "reason=cancelled", "stop.steps.1.action=KILL")...)
			gone(t, 0, "bash", "-c", bomb)
			w.want(0, "verify", "bomb")
		})
	})
}

// A storm of short-lived processes that heed no TERM, in sessions of their
// own: before Linux 5.14 nothing kills a cgroup at once.
func TestVMStorm(t *testing.T) {
	needMachine(t, "unified")
	w := newMachineWard(t)
	const storm = `trap '' TERM; s() { while :; do (setsid sleep 3502 &) & sleep .01; done; }; s & s & s & s & wait`
	w.want(0, "start", "-u", "storm", "--tasks-max", "400", "--grace", "30s", "--", "bash", "-c", storm)
	r := w.report("status", "storm")
	if !eventually(func() bool { n, _ := strconv.Atoi(cgroupFile(r, "pids.current")); return n > 30 }) {
		t.Fatal("no storm")
	}
	start := time.Now()
	r = w.report("stop", "--grace", "200ms", "storm")
	r.has("state=settled", "confirmed=true", "reason=cancelled", "exit.signal=KILL")
	t.Logf("ended after %v: %s", time.Since(start), r.get("stop"))
	gone(t, 0, "sleep", "3502")
	gone(t, 0, "bash", "-c", storm)
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

// Limits that hold are read back from the kernel; one whose controller the
// manager does not have is told of, and prevents the start where it is required.
func TestVMLimitsHeld(t *testing.T) {
	for _, l := range []struct {
		option, value    string
		controller, file string
		found            string
	}{
		{"--cpu-quota", "50%", "cpu", "cpu.max", "50000 100000"},
		{"--memory-max", "128M", "memory", "memory.max", "134217728"},
		{"--tasks-max", "99", "pids", "pids.max", "99"},
	} {
		t.Run(l.controller, func(t *testing.T) {
			w := newMachineWard(t)
			mark := filepath.Join(t.TempDir(), "ran")
			if !delegated(t, l.controller) {
				a := w.want(125, "run", l.option, l.value, "--require-limits", "--", "touch", mark)
				if !strings.Contains(a.err, l.controller+" controller") && (cgroupMount() != "" || !strings.Contains(a.err, "no cgroup2 file system is mounted")) {
					t.Errorf("the reason is not told: %s", a)
				}
				if _, err := os.Stat(mark); err == nil {
					t.Error("the command was run")
				}
				w.want(0, "start", "-u", "limited", l.option, l.value, "--", "sleep", "3505")
				w.report("status", "limited").has("limits.0.applied=false")
				w.want(0, "stop", "limited")
				return
			}
			w.want(0, "start", "-u", "limited", l.option, l.value, "--require-limits", "--", "sleep", "3505")
			r := w.report("status", "limited")
			r.has("state=running", "limits.0.applied=true", "limits.0.found="+l.found)
			if got := cgroupFile(r, l.file); got != l.found {
				t.Errorf("%s is %q, want %q", l.file, got, l.found)
			}
			w.report("stop", "limited").has("confirmed=true", "limits.0.applied=true", "limits.0.found="+l.found)
		})
	}
}

// All three at once.
func TestVMLimitsTogether(t *testing.T) {
	w := newMachineWard(t)
	if !delegated(t, "cpu") {
		w.want(125, "run", "--cpu-quota", "50%", "--memory-max", "128M", "--tasks-max", "99", "--require-limits", "--", "true")
		return
	}
	_, r := w.withFile("run", "--cpu-quota", "50%", "--memory-max", "128M", "--tasks-max", "99", "--require-limits", "--", "true")
	r.has("confirmed=true", "reason=completed", "limits.len=3", "limits.0.applied=true", "limits.1.applied=true", "limits.2.applied=true")
}

// The most that a job has had of memory and tasks is known after its end, where
// the kernel counts it.
func TestVMUsage(t *testing.T) {
	w := newMachineWard(t)
	w.want(0, "start", "-u", "uses", "--output", "capture", "--memory-max", "512M", "--tasks-max", "99", "--", "sh", "-c", "sleep 2 & sleep 2 & wait")
	r := w.report("status", "uses")
	counted := map[string]bool{"memory_peak": cgroupFile(r, "memory.peak") != "", "tasks_peak": cgroupFile(r, "pids.peak") != ""}
	w.want(0, "wait", "uses")
	r = w.report("status", "uses")
	for field, want := range counted {
		var peak uint64
		fmt.Sscan(r.get("usage."+field), &peak)
		if want && peak < 3 {
			t.Errorf("%s is %s", field, r.get("usage."+field))
		}
	}
	t.Logf("counted is %v: %s", counted, r.get("usage"))
}

// A command that has ended before its limits could be read back was limited
// all the same.
func TestVMLimitsOfShortJobs(t *testing.T) {
	needMachine(t, "unified")
	w := newMachineWard(t)
	for range 5 {
		_, r := w.withFile("run", "--memory-max", "128M", "--tasks-max", "99", "--require-limits", "--", "true")
		r.has("confirmed=true", "reason=completed", "exit.code=0")
	}
}

// TasksCurrent is a number where the pids controller works, while a unit runs;
// at its end it is 0 or not set, and only the 0 is a proof.
func TestVMTasksCurrent(t *testing.T) {
	w := newMachineWard(t)
	// A manager of a user's has none of cgroup v1's controllers.
	counts := delegated(t, "pids")
	if !counts {
		needMachine(t, "hybrid", "legacy")
		counts = os.Geteuid() == 0
	}
	tasks := func(n uint64) uint64 {
		if counts {
			return n
		}
		return verify.TasksUnset
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	m := unit.ManagerUser
	if os.Geteuid() == 0 {
		m = unit.ManagerSystem
	}
	c, err := dbusclient.Dial(ctx, m, dbusclient.Environment{Getenv: os.Getenv, UID: os.Geteuid()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	open := func(t *testing.T, name string) *dbusclient.Unit {
		u, err := c.Open(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(u.Close)
		return u
	}

	t.Run("job", func(t *testing.T) {
		// Without who tends captured output: that is a task of the unit, too.
		w.want(0, "start", "-u", "counted", "--output", "null", "--", "sh", "-c", "sleep 3506 & sleep 3507 & wait")
		alive(t, "sleep", "3506")
		alive(t, "sleep", "3507")
		u := open(t, "counted.service")
		if r := u.Read(ctx, dbusclient.DepthAll); !r.Read || r.TasksCurrent != tasks(3) {
			t.Errorf("TasksCurrent is %d, want %d (%s)", r.TasksCurrent, tasks(3), r.Err)
		}
		if got := tasksCurrent(t, "counted.service"); counts && got != "3" {
			t.Errorf("systemctl says %q, want 3", got)
		}
		w.want(0, "stop", "counted")
		r := u.Read(ctx, dbusclient.DepthAll)
		t.Logf("systemd %d, at the end: ControlGroup %q, TasksCurrent %d (unset is %d), %s, code %d", systemdVersion(), r.ControlGroup, r.TasksCurrent, verify.TasksUnset, r.ActiveState, r.ExecMainCode)
		if r.TasksCurrent != 0 && r.TasksCurrent != verify.TasksUnset {
			t.Errorf("TasksCurrent is %d at the end", r.TasksCurrent)
		}
	})

	// A unit that stays when all of it has ended. With Delegate= the manager
	// keeps the cgroup too, and counts.
	for _, delegate := range []string{"no", "yes"} {
		t.Run("remain, Delegate="+delegate, func(t *testing.T) {
			name := "remains-" + delegate + ".service"
			t.Cleanup(func() { exec.Command("systemctl", manager(), "stop", name).Run() })
			shell(t, "systemd-run", manager(), "--quiet", "--unit="+name, "-r", "-p", "Delegate="+delegate, "sh", "-c", "sleep 3508; exit 0")
			u := open(t, name)
			alive(t, "sleep", "3508")
			running := u.Read(ctx, dbusclient.DepthAll)
			if running.TasksCurrent != tasks(2) {
				t.Errorf("TasksCurrent is %d, want %d", running.TasksCurrent, tasks(2))
			}
			shell(t, "pkill", "-x", "-f", "sleep 3508")
			var r dbusclient.Reading
			if !eventually(func() bool { r = u.Read(ctx, dbusclient.DepthAll); return r.SubState == "exited" }) {
				t.Fatalf("the unit is %s (%s)", r.ActiveState, r.SubState)
			}
			t.Logf("systemd %d, at the end: ControlGroup %q, TasksCurrent %d (unset is %d), systemctl %q", systemdVersion(), r.ControlGroup, r.TasksCurrent, verify.TasksUnset, tasksCurrent(t, name))
			if r.TasksCurrent != 0 && r.TasksCurrent != verify.TasksUnset {
				t.Errorf("TasksCurrent is %d at the end", r.TasksCurrent)
			}
			// Without our own look at the cgroup, the manager's word has to do.
			v := judge(r, running.InvocationID)
			t.Logf("verdict by the manager alone: empty %v, by %s (%s)", v.Tree.Empty, v.Tree.Source, v.Grade)
			if !v.Tree.Empty {
				t.Errorf("the end is not proven: %v", v.Missing)
			}
			if v := judge(running, running.InvocationID); v.Tree.Empty || v.Confirmed {
				t.Errorf("while it ran, it was called empty by %s", v.Tree.Source)
			}
		})
	}
}

func judge(r dbusclient.Reading, invocation string) verify.Verdict {
	return verify.Judge(verify.Observation{
		Name: "x", Isolation: verify.IsolationService, InvocationID: invocation, At: time.Now(),
		Identity: verify.Identity{State: verify.IdentitySame}, Unit: r.Unit,
	})
}

func tasksCurrent(t testing.TB, name string) string {
	t.Helper()
	return strings.TrimSpace(shell(t, "systemctl", manager(), "show", "-p", "TasksCurrent", "--value", name))
}

// Case 43: no signal ends what sleeps uninterruptibly. A stop says so, in
// time, and the proof comes when it wakes.
func TestVMUninterruptible(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: only root can mount what hangs")
	}
	// A stop's own bound after KILL is 5 s.
	const grace, bound = time.Second, 5 * time.Second
	const slack = 10 * time.Second // emulated, and the host has other work

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
