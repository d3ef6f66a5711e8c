package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
