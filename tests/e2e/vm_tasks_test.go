package e2e

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

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
