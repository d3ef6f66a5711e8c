package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	// Of the scope there is who keeps it, or nobody: nothing is confirmed while
	// it lives, and no exit is told that was none.
	switch scope := w.report("verify", "orphan-scope"); {
	case len(processes([]string{"sleep", "1043"})) > 0:
		scope.has("confirmed=false", "exit.known=false", "tree.empty=false")
	case scope.get("confirmed") == "true":
		scope.has("reason=signaled", "exit.signal=KILL", "tree.empty=true")
	default:
		scope.has("state=unknown", "reason=unknown", "exit.known=false", "tree.empty=true")
	}
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

	w.want(0, "start", "-u", "survivor", "--output", "null", "--", "sh", "-c", `trap "" TERM; setsid sleep 1048 & exec sleep 1049`)
	pid1, pid2 := alive(t, "sleep", "1048"), alive(t, "sleep", "1049")
	left = append(left, pid1, pid2)
	cgroup := strings.TrimSpace(shell(t, "systemctl", "show", "-p", "ControlGroup", "--value", "user@1000.service"))
	killUserManager(t)
	for _, pid := range below(t, "/sys/fs/cgroup"+cgroup) {
		if pid != pid1 && pid != pid2 {
			left = append(left, pid) // its broker and such
		}
	}
	r := w.unconfirmed("survivor")
	r.has("tree.empty=false")

	userManagerUp(t)
	r = w.unconfirmed("survivor")
	r.has("state=unknown", "tree.empty=false")
	for _, want := range []string{fmt.Sprintf(`"pid":%d,`, pid1), fmt.Sprintf(`"pid":%d,`, pid2)} {
		if !strings.Contains(r.get("tree.members"), want) {
			t.Errorf("%s is not among the members %s", want, r.get("tree.members"))
		}
	}
	if !strings.Contains(r.get("missing"), `"empty unit"`) || !strings.Contains(r.get("missing"), `"exit evidence"`) {
		t.Errorf("missing is %s", r.get("missing"))
	}
	if remedy := r.get("remedy"); !strings.Contains(remedy, "unitward stop survivor") {
		t.Errorf("the remedy is %q", remedy)
	}
	alive(t, "sleep", "1048")
	alive(t, "sleep", "1049")

	if a := w.do("stop", "--grace", "300ms", "survivor"); a.code != 123 {
		t.Errorf("want status 123 of %s", a)
	}
	gone(t, 0, "sleep", "1048")
	gone(t, 0, "sleep", "1049")
	w.unconfirmed("survivor").has("state=unknown", "reason=unknown", "tree.empty=true")
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

// Case 47: the right manager is found whatever the environment says.
func TestFindsManager(t *testing.T) {
	needRig(t)
	without := func(names ...string) []string {
		var env []string
		for _, kv := range os.Environ() {
			name, _, _ := strings.Cut(kv, "=")
			keep := true
			for _, n := range names {
				keep = keep && n != name
			}
			if keep {
				env = append(env, kv)
			}
		}
		return env
	}
	bare := without("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
	nobody := filepath.Join(t.TempDir(), "nobody")
	for _, c := range []struct {
		name string
		env  func(t *testing.T) []string
	}{
		{"nothing", func(t *testing.T) []string { return nil }},
		{"missing XDG_RUNTIME_DIR", func(t *testing.T) []string { return []string{"XDG_RUNTIME_DIR=/run/user/4711"} }},
		{"root's XDG_RUNTIME_DIR", func(t *testing.T) []string { return []string{"XDG_RUNTIME_DIR=/run/user/0"} }},
		{"another's XDG_RUNTIME_DIR", func(t *testing.T) []string { return []string{"XDG_RUNTIME_DIR=/run"} }},
		{"relative XDG_RUNTIME_DIR", func(t *testing.T) []string { return []string{"XDG_RUNTIME_DIR=run"} }},
		{"empty", func(t *testing.T) []string { return []string{"XDG_RUNTIME_DIR=", "DBUS_SESSION_BUS_ADDRESS="} }},
		{"no such bus", func(t *testing.T) []string { return []string{"DBUS_SESSION_BUS_ADDRESS=unix:path=" + nobody} }},
		{"bus by tcp", func(t *testing.T) []string { return []string{"DBUS_SESSION_BUS_ADDRESS=tcp:host=127.0.0.1,port=1"} }},
		{"bus without a manager", func(t *testing.T) []string { return []string{"DBUS_SESSION_BUS_ADDRESS=" + privateBus(t)} }},
		{"the system's bus", func(t *testing.T) []string {
			return []string{"DBUS_SESSION_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWard(t)
			w.env = append(append([]string{}, bare...), c.env(t)...)
			w.want(0, "run", "--", "true")
			w.want(7, "run", "--", "sh", "-c", "exit 7")
			w.want(0, "start", "-u", "found", "--", "sh", "-c", "exit 6")
			w.want(6, "wait", "--timeout", "15s", "found")
			w.report("status", "found").has("manager="+strings.TrimPrefix(manager(), "--"), "confirmed=true")
		})
	}
}

// privateBus is a message bus that systemd did not start.
func privateBus(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address")
	cmd.Env = append(os.Environ(), "DBUS_SESSION_BUS_ADDRESS=")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, r)
	return strings.TrimSpace(line)
}

// Case 47: without a manager that is ours nothing runs; the reason and a way
// out are said.
func TestNoManager(t *testing.T) {
	w := newWard(t)
	mark := filepath.Join(t.TempDir(), "ran")
	other := "--user" // root has none here
	if os.Geteuid() != 0 {
		other = "--system"
	}
	for _, verb := range []string{"run", "start"} {
		a := w.want(125, verb, other, "--", "touch", mark)
		lines := strings.Split(strings.TrimSpace(a.err), "\n")
		if !strings.HasPrefix(lines[0], "unitward: cannot ") || len(lines) < 2 {
			t.Errorf("want a line and a hint of %s", a)
		}
		for _, l := range lines[1:] {
			if !strings.HasPrefix(l, "hint: ") {
				t.Errorf("want a line and hints of %s", a)
			}
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it ran")
	}
	if left := w.want(0, "--json", "list", "--all").out; left != "[]\n" {
		t.Errorf("records are left: %s", left)
	}
}
