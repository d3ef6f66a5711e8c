package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/verify"
)

// userManagerUp starts the ordinary user's manager, if need be, and waits
// until it and its bus answer.
func userManagerUp(t testing.TB) {
	t.Helper()
	// Many starts in a short time are no failure here.
	exec.Command("systemctl", "reset-failed", "user@1000.service", "user-runtime-dir@1000.service").Run()
	shell(t, "systemctl", "start", "user@1000.service")
	var out []byte
	if !eventually(func() bool {
		var err error
		argv := append(asUser(), "busctl", "--user", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "GetUnit", "s", "basic.target")
		out, err = exec.Command(argv[0], argv[1:]...).CombinedOutput()
		return err == nil
	}) {
		t.Errorf("the user's manager does not come back: %s", out)
	}
}

// killUserManager kills the ordinary user's manager and waits until systemd
// has dealt with that.
func killUserManager(t testing.TB) {
	t.Helper()
	if err := syscall.Kill(userManagerPID(t, 1000), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	userManagerGone(t)
}

// userManagerGone waits until systemd has dealt with the end of the ordinary user's
// manager.
func userManagerGone(t testing.TB) {
	t.Helper()
	var state string
	if !eventually(func() bool {
		state = strings.TrimSpace(shell(t, "systemctl", "show", "-p", "ActiveState", "--value", "user@1000.service"))
		return state == "failed" || state == "inactive"
	}) {
		t.Fatalf("user@1000.service is %s", state)
	}
}

func needRootToKillManager(t *testing.T) {
	t.Helper()
	needRig(t)
	if os.Geteuid() != 0 {
		t.Skip("a user without a manager cannot start it again; root does all this in this test, with jobs of this user")
	}
}

// Case 45: the manager is killed, and all that it ran with it.
func TestDisturbedManagerKilled(t *testing.T) {
	needRootToKillManager(t)
	w := asTester(t, testerDir(t))
	t.Cleanup(func() { userManagerUp(t) })
	// Where output is captured, a reaper may live to write the exit down.
	w.want(0, "start", "-u", "orphan", "--output", "null", "--", "sh", "-c", "setsid sleep 1045 & exec sleep 1046")
	alive(t, "sleep", "1045")
	alive(t, "sleep", "1046")
	report := filepath.Join(filepath.Dir(w.state), "report")
	called := w.begin(w.cmd("run", "--report", report, "-u", "orphan-call", "--", "sleep", "1047"))
	called.report = report
	alive(t, "sleep", "1047")
	if !eventually(func() bool { return w.report("status", "orphan-call").get("state") == "running" }) {
		t.Fatal("its start is not recorded")
	}
	// A scope's keeper is the manager's too, and dies with it.
	scoped := *w
	scoped.isolation = verify.IsolationScope
	scoped.want(0, "start", "-u", "orphan-scope", "--output", "null", "--", "sleep", "1043")
	alive(t, "sleep", "1043")
	// What is in a cgroup of the user's own is in the manager's tree too.
	delegated := *w
	delegated.isolation, delegated.scope = verify.IsolationCgroup, true
	delegated.want(0, "start", "-u", "orphan-cgroup", "--output", "null", "--", "sleep", "1042")
	alive(t, "sleep", "1042")
	// A group is nobody's but its keeper's.
	group := *w
	group.isolation = verify.IsolationGroup
	leave := filepath.Join(filepath.Dir(w.state), "leave")
	group.want(0, "start", "-u", "orphan-group", "--output", "null", "--", "sh", "-c", "while ! [ -e "+leave+" ]; do sleep .03; done; exit 41")
	waiter := w.waiting("orphan")
	// This one's start may be done or not by then.
	early := w.begin(w.cmd("run", "-u", "orphan-early", "--", "sleep", "1044"))
	alive(t, "sleep", "1044")

	killUserManager(t)
	w.unconfirmed("orphan") // nobody answers

	userManagerUp(t)
	for _, mark := range []string{"1044", "1045", "1046", "1047"} {
		gone(t, patience, "sleep", mark)
	}
	// Of these there is who keeps them, or nobody: nothing is confirmed while they
	// live, and no exit is told that was none.
	for name, mark := range map[string]string{"orphan-scope": "1043", "orphan-cgroup": "1042"} {
		switch r := w.report("verify", name); {
		case len(processes([]string{"sleep", mark})) > 0:
			r.has("confirmed=false", "exit.known=false", "tree.empty=false")
		case r.get("confirmed") == "true":
			r.has("reason=signaled", "exit.signal=KILL", "tree.empty=true")
		default:
			r.has("state=unknown", "reason=unknown", "exit.known=false", "tree.empty=true")
		}
	}
	w.report("verify", "orphan-group").has("state=running", "confirmed=false", "isolation=group")
	if err := os.WriteFile(leave, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.want(41, "wait", "--timeout", "15s", "orphan-group")
	w.report("verify", "orphan-group").has("confirmed=true", "exit.code=41", "tree.empty=true", "grade=proven")
	r := w.unconfirmed("orphan")
	r.has("state=unknown", "reason=unknown", "exit.known=false", "tree.empty=true")
	if remedy := r.get("remedy"); !strings.Contains(remedy, "outcome is unknown") {
		t.Errorf("the remedy is %q", remedy)
	}
	if a := w.do("wait", "--timeout", "10s", "orphan"); a.code != 123 {
		t.Errorf("want status 123 of %s", a)
	}
	waiter.wantStatus(123)
	called.wantStatus(123)
	readReport(t, called.report).has("confirmed=false", "exit.known=false", "state=unknown")
	if code := early.status(); code != 123 && code != 125 {
		t.Errorf("status %d: %s", code, early.said())
	}
	w.unconfirmed("orphan-early").has("tree.empty=true")
	// Nothing to stop, and nothing confirmed by trying.
	w.do("stop", "--grace", "0s", "orphan")
	w.unconfirmed("orphan").has("state=unknown")
}

// Case 21: the parent of a user's job is the user's manager, which the job kills.
// No exit is made up, and a job that is not that manager's goes on.
func TestDisturbedManagerKilledByJob(t *testing.T) {
	needRootToKillManager(t)
	w := asTester(t, testerDir(t))
	t.Cleanup(func() { userManagerUp(t) })
	other := *w
	other.isolation = verify.IsolationGroup
	other.want(0, "start", "-u", "bystander", "--", "sleep", "1042")
	bystander := alive(t, "sleep", "1042")
	report := filepath.Join(filepath.Dir(w.state), "report")
	leave := filepath.Join(filepath.Dir(w.state), "leave")
	job := []string{"sh", "-c", "while ! [ -e " + leave + " ]; do sleep .03; done; kill -9 $PPID; sleep 5; exit 3"}
	f := w.begin(w.cmd(append([]string{"run", "-u", "kills-manager", "--report", report, "--"}, job...)...))
	alive(t, job...)
	if !eventually(func() bool { return w.report("status", "kills-manager").get("state") == "running" }) {
		t.Fatal("its start is not recorded")
	}
	touch(t, leave)
	userManagerGone(t)
	userManagerUp(t) // or the call would give it some time to come back
	switch status := f.status(); status {
	case 3:
		readReport(t, report).has("exit.code=3", "confirmed=true", "tree.empty=true")
	case 123:
		readReport(t, report).has("exit.known=false", "confirmed=false", "state=unknown", "missing.0.what=exit evidence")
	default:
		t.Errorf("status %d: %s", status, f.said())
	}
	gone(t, patience, job...)
	if pid := alive(t, "sleep", "1042"); pid != bystander {
		t.Errorf("the bystander is %d, was %d", pid, bystander)
	}
	other.report("status", "bystander").has("state=running")
	other.want(0, "stop", "bystander")
}

// unconfirmed wants a verdict of 123 and returns its report.
func (w *ward) unconfirmed(name string) report {
	w.t.Helper()
	a := w.do("--json", "verify", name)
	r := parseReport(w.t, a.out)
	r.has("confirmed=false", "exit.known=false")
	if a.code != 123 {
		w.t.Errorf("want status 123 of %s", a)
	}
	return r
}

// Case 45: the manager is killed and what it ran lives on.
func TestDisturbedManagerKilledJobLives(t *testing.T) {
	needRootToKillManager(t)
	w := asTester(t, testerDir(t))
	dropin := "/run/systemd/system/user@.service.d"
	if _, err := os.Stat(dropin); err == nil {
		t.Fatalf("%s is there already", dropin)
	}
	var left []int
	t.Cleanup(func() {
		os.RemoveAll(dropin)
		shell(t, "systemctl", "daemon-reload")
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		// Once more from a clean start.
		exec.Command("systemctl", "stop", "user@1000.service").Run()
		userManagerUp(t)
	})
	if err := os.MkdirAll(dropin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dropin+"/e2e.conf", []byte("[Service]\nKillMode=process\nPAMName=\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	shell(t, "systemctl", "daemon-reload")

	jobs := []*survivor{{w: w, name: "survivor-service"}, {w: w, name: "survivor-scope", kept: true}}
	for i, j := range jobs {
		own := *w
		own.isolation = strings.TrimPrefix(j.name, "survivor-")
		j.w, j.heard = &own, filepath.Join(filepath.Dir(w.state), j.name)
		for k := range j.sleeps {
			j.sleeps[k] = strconv.Itoa(1048 + 10*i + k)
		}
		j.w.want(0, "start", "-u", j.name, "--output", "null", "--", "sh", "-c",
			fmt.Sprintf(`trap "touch %s" TERM; setsid sleep %s & while :; do sleep %s; done`, j.heard, j.sleeps[0], j.sleeps[1]))
		for k, mark := range j.sleeps {
			j.pids[k] = alive(t, "sleep", mark)
		}
		left = append(left, j.pids[:]...)
	}
	cgroup := strings.TrimSpace(shell(t, "systemctl", "show", "-p", "ControlGroup", "--value", "user@1000.service"))
	killUserManager(t)
	left = append(left, below(t, cgroupMount()+cgroup)...) // its broker and such, too
	for _, j := range jobs {
		j.lives()
	}
	userManagerUp(t)
	for _, j := range jobs {
		r := j.lives()
		state, remedy := "unknown", "unitward stop "+j.name
		if j.kept {
			state, remedy = "running", "unitward wait "+j.name
		}
		r.has("state=" + state)
		for _, pid := range j.pids {
			if want := fmt.Sprintf(`"pid":%d,`, pid); !strings.Contains(r.get("tree.members"), want) {
				t.Errorf("%s is not among the members %s", want, r.get("tree.members"))
			}
		}
		if !strings.Contains(r.get("missing"), `"empty unit"`) || !strings.Contains(r.get("missing"), `"exit evidence"`) {
			t.Errorf("missing is %s", r.get("missing"))
		}
		if got := r.get("remedy"); !strings.Contains(got, remedy) {
			t.Errorf("the remedy is %q, want one with %q", got, remedy)
		}
	}
	for _, j := range jobs {
		j.stopped()
	}
}

// survivor is a job that lives on when its manager is killed.
type survivor struct {
	w    *ward
	name string
	// kept is true for one that a keeper of unitward's stays with, outside of the
	// manager's tree: what its exit is does not depend on the manager.
	kept bool
	// heard is a file that it makes when it gets SIGTERM.
	heard  string
	sleeps [2]string // that of its own session, and its main process's
	pids   [2]int
}

// lives wants its end to be unconfirmed, and its processes to be seen.
func (j *survivor) lives() report {
	j.w.t.Helper()
	r := j.w.unconfirmed(j.name)
	r.has("tree.empty=false")
	for _, mark := range j.sleeps {
		alive(j.w.t, "sleep", mark)
	}
	return r
}

// stopped ends it: SIGTERM comes first, then SIGKILL, and what is then known is said.
func (j *survivor) stopped() {
	j.w.t.Helper()
	code, said := 123, []string{"confirmed=false", "state=unknown", "reason=unknown", "exit.known=false"}
	if j.kept {
		code, said = 0, []string{"confirmed=true", "state=settled", "reason=cancelled", "exit.signal=KILL"}
	}
	if a := j.w.do("stop", "--grace", "300ms", j.name); a.code != code {
		j.w.t.Errorf("want status %d of %s", code, a)
	}
	for _, mark := range j.sleeps {
		gone(j.w.t, 0, "sleep", mark)
	}
	if !isThere(j.heard) {
		j.w.t.Errorf("%s got no SIGTERM: %s", j.name, j.w.report("status", j.name).raw)
	}
	j.w.report("verify", j.name).has(append(said, "tree.empty=true")...)
}

// below lists the processes of a cgroup and of those below it.
func below(t testing.TB, dir string) []int {
	t.Helper()
	var pids []int
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		b, _ := os.ReadFile(path)
		for _, line := range strings.Fields(string(b)) {
			var pid int
			fmt.Sscan(line, &pid)
			if pid > 1 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}
