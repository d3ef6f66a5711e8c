package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit/launch"
)

// alone puts the test where no manager can be found by the environment, and
// returns its state directory.
// TestMain lets this program be what unitward executes of itself.
func TestMain(m *testing.M) {
	if asShell(os.Args[0]) || len(os.Args) == 3 && strings.HasPrefix(os.Args[1], "_") {
		os.Exit(enter(os.Args))
	}
	if args := os.Getenv("UNITWARD_TEST_ARGS"); args != "" {
		os.Exit(execute(strings.Fields(args), streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

func alone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	for name, value := range map[string]string{
		"HOME": dir, "UNITWARD_STATE_DIR": state, "XDG_RUNTIME_DIR": dir, "XDG_STATE_HOME": dir, "DBUS_SESSION_BUS_ADDRESS": "", "PATH": "/usr/bin:/bin",
	} {
		t.Setenv(name, value)
	}
	t.Chdir(dir)
	return state
}

// unmanaged skips where the user has a manager, which has sockets at a fixed
// path: a test that runs everywhere starts nothing there.
func unmanaged(t *testing.T) {
	t.Helper()
	for _, name := range []string{"bus", "systemd/private"} {
		if p := fmt.Sprintf("/run/user/%d/%s", os.Geteuid(), name); exists(p) {
			t.Skipf("%s is there: this user has a manager", p)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func do(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	s, read := files(t)
	status = execute(args, s)
	out, errs = read()
	return status, out, errs
}

var verbs = []string{"run", "start", "wait", "status", "list", "stop", "kill", "pause", "resume", "verify", "doctor", "logs"}

func TestHelp(t *testing.T) {
	alone(t)
	status, out, errs := do(t, "--help")
	if status != 0 || errs != "" {
		t.Errorf("--help: %d, %q", status, errs)
	}
	for _, verb := range verbs {
		if !strings.Contains(out, "\n  "+verb+" ") {
			t.Errorf("--help does not list %s:\n%s", verb, out)
		}
		status, own, errs := do(t, verb, "--help")
		if status != 0 || errs != "" || !strings.Contains(own, "unitward "+verb) {
			t.Errorf("%s --help: %d, %q, %q", verb, status, errs, own)
		}
	}
	for _, hidden := range []string{launch.BecomeVerb, launch.RecordVerb} {
		if strings.Contains(out, hidden) {
			t.Errorf("--help shows %s", hidden)
		}
	}
}

// What goes wrong is JSON too where that was asked for, of each job.
func TestErrorsAsJSON(t *testing.T) {
	alone(t)
	for args, want := range map[string]int{
		"release --json foo": 1, "release --json foo bar": 2, "status --json foo bar": 2, "verify --json foo": 1, "verify --json --job-dir rel": 1, "reap --json --bad": 1,
	} {
		status, out, errs := do(t, strings.Fields(args)...)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if status != exitError || len(lines) != want {
			t.Errorf("%q: status %d, %d lines: %q", args, status, len(lines), out)
		}
		for _, l := range lines {
			var o errorObject
			if err := json.Unmarshal([]byte(l), &o); err != nil || o.Error.Status != exitError || !strings.Contains(errs, o.Error.Message) {
				t.Errorf("%q: %q, %v", args, l, err)
			}
		}
	}
}

func TestCommandThatCannotRun(t *testing.T) {
	alone(t)
	if err := os.WriteFile("plain", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]int{"./plain": 126, "/": 126, "./missing": 127, "no-such-command-anywhere": 127, "./plain/x": 127} {
		for _, verb := range []string{"run", "start"} {
			if status, out, errs := do(t, verb, "--user", "--", command); status != want || out != "" || !strings.HasPrefix(errs, "unitward: cannot start "+command) {
				t.Errorf("%s %s: status %d, %q, %q; want %d", verb, command, status, out, errs, want)
			}
		}
	}
}

func TestWithoutAManager(t *testing.T) {
	state := alone(t)
	unmanaged(t)
	for _, verb := range []string{"run", "start"} {
		status, out, errs := do(t, verb, "--user", "-u", "foo", "--", "true")
		lines := strings.Split(errs, "\n")
		if status != exitError || out != "" || len(lines) != 4 || !strings.HasPrefix(lines[0], "unitward: cannot reach the user manager: ") ||
			!strings.HasPrefix(lines[1], "hint: ") || !strings.Contains(lines[0], "/bus: no such file or directory") {
			t.Errorf("%s: status %d, %q, %q", verb, status, out, errs)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("nothing was started, and it left %v", entries)
	}
	status, out, _ := do(t, "--json", "run", "--user", "--", "true")
	var o struct{ Error errorBody }
	if err := json.Unmarshal([]byte(out), &o); err != nil || status != exitError || o.Error.Status != exitError || len(o.Error.Hints) != 2 {
		t.Errorf("as JSON: %d, %s, %v", status, out, err)
	}
}
