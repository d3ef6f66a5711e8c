package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/verify"
)

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

// Case 47: who has no manager, whatever XDG_RUNTIME_DIR says, gets the next rung that
// works, and the reason; who comes by su gets his own manager.
func TestLadderWithoutManager(t *testing.T) {
	needRig(t)
	if os.Geteuid() != 0 {
		t.Skip("user: only root can be another user")
	}
	const nobody = 64711
	for _, runtime := range []string{"", "/run/user/1000", "/run/user/0", "/run"} {
		t.Run("XDG_RUNTIME_DIR="+runtime, func(t *testing.T) {
			dir, err := os.MkdirTemp("/var/tmp", "e2e")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			if err := os.Chown(dir, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			w := newWard(t)
			w.state = filepath.Join(dir, "state")
			w.before = []string{"setpriv", "--reuid", fmt.Sprint(nobody), "--regid", fmt.Sprint(nobody), "--clear-groups", "env", "-i", "HOME=" + dir, "PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=" + runtime}
			report := filepath.Join(dir, "report")
			w.want(7, "run", "--report", report, "--", "sh", "-c", "exit 7")
			r := readReport(t, report)
			r.has("confirmed=true", "exit.code=7", "refused.0.what=service")
			if got := r.get("isolation"); got != verify.IsolationGroup && got != verify.IsolationCgroup {
				t.Errorf("the isolation is %s", got)
			}
			if why := r.get("refused.0.why"); !strings.Contains(why, "user manager") {
				t.Errorf("the reason is %q", why)
			}
		})
	}
	t.Run("su", func(t *testing.T) {
		dir := testerDir(t)
		report := filepath.Join(dir, "report")
		out, err := exec.Command("su", "-", "tester", "-c", fmt.Sprintf("%s --state-dir %s/state run --report %s -- sh -c 'exit 7'", program(t), dir, report)).CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Fatalf("want status 7, not %v: %s", err, out)
		}
		readReport(t, report).has("isolation=service", "manager=user", "confirmed=true", "exit.code=7", "refused.len=0")
	})
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
