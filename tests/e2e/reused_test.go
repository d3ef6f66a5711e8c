package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// Case 38: after a reboot the processes are gone and the outcome is unknown. A
// record of another host or user is of no use here, which is said.
func TestOtherBoot(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "booted", "--", "sleep", "1151")
		pid := alive(t, "sleep", "1151")
		another := "0123456789abcdef0123456789abcdef"
		undo := w.tamper("booted", func(id map[string]any) { id["boot_id"] = another })
		t.Cleanup(undo)
		r := w.unconfirmed("booted")
		r.has("state=unknown", "reason=unknown", "tree.empty=true", "missing.0.what=exit evidence")
		if !strings.Contains(r.get("tree.source"), "boot id changed") || !strings.Contains(r.get("remedy"), "reboot") {
			t.Errorf("the reboot is not said: %s", r.raw)
		}
		if a := w.do("wait", "--timeout", "10s", "booted"); a.code != 123 {
			t.Errorf("want status 123 of %s", a)
		}
		undo()
		undo = w.tamper("booted", func(id map[string]any) { id["host"] = another })
		t.Cleanup(undo)
		w.unconfirmed("booted").has("state=unknown", "tree.empty=false")
		if a := w.want(0, "list"); !strings.Contains(a.out, "foreign") {
			t.Errorf("want it to be foreign in %s", a)
		}
		undo()
		if got := processes([]string{"sleep", "1151"}); !slices.Equal(got, []int{pid}) {
			t.Errorf("the process is %v, was %d", got, pid)
		}
		w.report("status", "booted").has("state=running")
		w.want(0, "stop", "booted")
	})
}

// Case 36: the number of a recorded process is another's by now. That one is
// never signalled, and the verdict does not rest on it.
func TestReusedPID(t *testing.T) {
	needRig(t)
	if os.Geteuid() != 0 {
		t.Skip("user: only root can choose the next number of a process")
	}
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "reused", "--output", "capture", "--", "sh", "-c", "exec sleep 1152")
		pid := alive(t, "sleep", "1152")
		rec := w.recordOf("reused")
		if rec.Identity.PID != pid {
			t.Fatalf("its process is %d, recorded is %d", pid, rec.Identity.PID)
		}
		stay := w.staying(rec)
		for _, dead := range []int{stay[1], stay[0], pid} {
			if err := syscall.Kill(dead, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		gone(t, patience, "sleep", "1152")
		stranger := atNumber(t, pid, rec.Identity.StartTime, "sleep", "1153")
		var r report
		eventually(func() bool { // the manager needs a moment
			r = w.report("verify", "reused")
			if members := r.get("tree.members"); strings.Contains(members, fmt.Sprintf(`"pid":%d,`, pid)) {
				t.Errorf("a stranger is a member: %s", members)
			}
			return w.isolation == verify.IsolationGroup || r.get("tree.empty") == "true"
		})
		switch {
		case w.isolation == verify.IsolationGroup:
			r.has("confirmed=false", "state=unknown")
			changed := fmt.Sprintf("process %d started at %d, recorded was %d", pid, startOf(t, pid), rec.Identity.StartTime)
			if !strings.Contains(r.raw, changed) {
				t.Errorf("it is not said that %s: %s", changed, r.raw)
			}
		case r.get("tree.empty") != "true" || !slices.ContainsFunc([]string{"cgroup", "ControlGroup", "TasksCurrent"}, func(evidence string) bool {
			return strings.Contains(r.get("tree.source"), evidence)
		}):
			t.Errorf("the end is not proven by what has no process number: %s", r.raw)
		}
		for _, verb := range [][]string{{"kill", "-s", "KILL"}, {"kill", "-s", "KILL", "--who", "all"}, {"pause"}, {"resume"}, {"stop", "--grace", "0s"}, {"verify"}, {"reap", "--orphans"}} {
			if verb[0] != "reap" {
				verb = append(verb, "reused")
			}
			w.do(verb...)
		}
		if state := stateOf(pid); state != "S" || !slices.Equal(processes(stranger), []int{pid}) {
			t.Errorf("who has the number %d now is in state %q, %v", pid, state, processes(stranger))
		}
	})
}

// atNumber starts a command as the process of a number, which is free, in a later
// tick of the clock than after: in the same one nothing tells them apart.
func atNumber(t *testing.T, pid int, after uint64, argv ...string) []string {
	t.Helper()
	// The machine's own cannot be written to.
	proc := t.TempDir()
	if err := unix.Mount("proc", proc, "proc", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(proc, unix.MNT_DETACH)
	for range 200 {
		if err := os.WriteFile(proc+"/sys/kernel/ns_last_pid", fmt.Appendf(nil, "%d", pid-1), 0); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(argv[0], argv[1:]...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if cmd.Process.Pid == pid && startOf(t, pid) > after {
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
			return argv
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	t.Fatalf("no process gets the number %d", pid)
	return nil
}
