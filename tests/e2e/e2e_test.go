// Package e2e runs the unitward program: the cases that must hold, as scripts
// and as tests, in every isolation. Those of services and scopes need the rig;
// the others run anywhere, as this user and, for root, as another one too.
//
// UNITWARD_TEST_ISOLATION=cgroup,group runs those isolations alone;
// UNITWARD_TEST_KILLS=10000 is how many processes TestRandomKills kills in each,
// and UNITWARD_TEST_SEED repeats one of its trials; UNITWARD_TEST_RUNS=1000 is how
// many runs TestManyCodes and TestManyLeaveNothing make in each; UNITWARD_TEST_CRASHES=all has
// TestCrashes and its like strike at every fault point.
package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds every wait for a condition. It is no expectation: a test
// that waits this long has failed.
const patience = time.Minute

// needRig ends a test that has no systemd of its own to talk to. The rig
// makes a skip there an error.
func needRig(t *testing.T) {
	t.Helper()
	if !rigged() {
		t.Skip("rig: needs a systemd manager of its own; make test-rig has them")
	}
}

// rigged is true where a systemd manager is there for the tests alone.
func rigged() bool { return os.Getenv("UNITWARD_RIG") != "" }

// program is the unitward under test.
func program(t testing.TB) string {
	t.Helper()
	bin := os.Getenv("UNITWARD_BIN")
	if !filepath.IsAbs(bin) {
		t.Fatalf("UNITWARD_BIN=%q is not the path of the program", bin)
	}
	return bin
}

func manager() string {
	if os.Geteuid() == 0 {
		return "--system"
	}
	return "--user"
}

// TestScripts runs the scripts: those of testdata in every isolation, those of
// testdata/service, which speak to the manager, for services.
func TestScripts(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) { scripts(t, "testdata", w) })
}

func TestServiceScripts(t *testing.T) {
	in(t, all[:1], func(t *testing.T, w *ward) { scripts(t, "testdata/service", w) })
}

func scripts(t *testing.T, dir string, w *ward) {
	bin := wrapper(t, w.isolation)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "GOCOVERDIR", "USER", "LOGNAME", "SHELL"} {
				if v, ok := os.LookupEnv(name); ok {
					e.Setenv(name, v)
				}
			}
			e.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			e.Setenv("UNITWARD_STATE_DIR", filepath.Join(e.WorkDir, "state"))
			e.Setenv("M", manager())
			e.Setenv("UID", strconv.Itoa(os.Geteuid()))
			e.Setenv("BIN", program(t))
			e.Setenv("TESTPID", strconv.Itoa(os.Getpid()))
			e.Setenv("ISOLATION", w.isolation)
			e.Setenv("VERSION", strconv.Itoa(systemdVersion()))
			e.Defer(func() { stopAll(t, filepath.Join(e.WorkDir, "state")) })
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if n, ok := strings.CutPrefix(cond, "systemd>="); ok {
				want, err := strconv.Atoi(n)
				return systemdVersion() >= want, err
			}
			switch cond {
			case "journal":
				return journal(), nil
			case "root":
				return os.Geteuid() == 0, nil
			case "service", "scope", "cgroup", "group":
				return cond == w.isolation, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  cmdExits,
			"within": cmdWithin,
			"json":   cmdJSON,
			"none":   cmdNone,
			"some":   cmdSome,
			"nounit": cmdNoUnit,
		},
	})
}

// stopAll ends what a script left running.
func stopAll(t testing.TB, state string) {
	jobs, _ := os.ReadDir(filepath.Join(state, "jobs"))
	for _, j := range jobs {
		out, err := exec.Command(program(t), "--state-dir", state, "stop", "--grace", "0s", j.Name()).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Errorf("cannot clean up %s: %v\n%s", j.Name(), err, out)
		}
	}
}

// cmdExits runs a program and wants its exit status: exits STATUS PROGRAM...
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("cannot run %s: %v", args[1], err)
	}
	if got != want {
		ts.Fatalf("%s exited with %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

// cmdWithin is exits for a program that a case wants to end in some time: within
// DURATION STATUS PROGRAM...
func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: within DURATION STATUS PROGRAM [ARGUMENT...]")
	}
	most, err := time.ParseDuration(args[0])
	ts.Check(err)
	start := time.Now()
	cmdExits(ts, false, args[1:])
	if took := time.Since(start); took > most {
		ts.Fatalf("%s took %v, at most %v were allowed", strings.Join(args[2:], " "), took, most)
	}
}

// cmdJSON compares fields of a report: json FILE PATH=VALUE..., where PATH is
// like exit.code or stop.steps.0.action, and VALUE is JSON or a bare string.
// PATH~TEXT wants the text within.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: json FILE PATH=VALUE...")
	}
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for _, a := range args[1:] {
		i := strings.IndexAny(a, "=~")
		if i < 0 {
			ts.Fatalf("%q is neither PATH=VALUE nor PATH~TEXT", a)
		}
		path, want := a[:i], a[i+1:]
		got, ok := dig(v, path)
		if !ok {
			ts.Fatalf("%s has no %s: %s", args[0], path, ts.ReadFile(args[0]))
		}
		text, isText := got.(string)
		if !isText {
			b, err := json.Marshal(got)
			ts.Check(err)
			text = string(b)
		}
		if a[i] == '~' && !strings.Contains(text, want) || a[i] == '=' && text != want {
			ts.Fatalf("%s: %s is %s, want %s\n%s", args[0], path, text, want, ts.ReadFile(args[0]))
		}
	}
}

func dig(v any, path string) (any, bool) {
	for _, key := range strings.Split(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			next, ok := x[key]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			if key == "len" {
				v = float64(len(x))
				continue
			}
			n, err := strconv.Atoi(key)
			if err != nil || n >= len(x) {
				return nil, false
			}
			v = x[n]
		default:
			return nil, false
		}
	}
	return v, true
}

// cmdNone wants no process with the given command line, now.
func cmdNone(ts *testscript.TestScript, neg bool, args []string) {
	if pids := processes(args); len(pids) > 0 {
		ts.Fatalf("%s still runs: %v", strings.Join(args, " "), pids)
	}
}

// cmdSome waits for a process with the given command line, in a state where one is
// named: some [STATE] PROGRAM..., where STATE is a letter of proc_pid_stat(5).
func cmdSome(ts *testscript.TestScript, neg bool, args []string) {
	state := ""
	if len(args) > 1 && len(args[0]) == 1 {
		state, args = args[0], args[1:]
	}
	if !eventually(func() bool {
		return slices.ContainsFunc(processes(args), func(pid int) bool { return state == "" || stateOf(pid) == state })
	}) {
		ts.Fatalf("%s does not run, or is not in state %q", strings.Join(args, " "), state)
	}
}

// cmdNoUnit waits until the manager has no unit of a pattern loaded, where there
// is one, but for those in which all processes are another script's.
func cmdNoUnit(ts *testscript.TestScript, neg bool, args []string) {
	if !inRig() {
		return
	}
	var left string
	if !eventually(func() bool {
		units := slices.Collect(strings.Lines(loadedUnits(args...)))
		left = strings.Join(slices.DeleteFunc(units, func(line string) bool {
			unit, _, _ := strings.Cut(line, " ")
			return ofAnother(unit, ts.Getenv("WORK"))
		}), "")
		return left == ""
	}) {
		ts.Fatalf("units are left: %s", left)
	}
}

func eventually(ok func() bool) bool {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

func loadedUnits(patterns ...string) string {
	args := append([]string{manager(), "list-units", "--all", "--plain", "--no-legend"}, patterns...)
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		return "systemctl: " + err.Error() + ": " + string(out)
	}
	return strings.TrimSpace(string(out))
}

// ofAnother says that a unit has processes, and that each was started by a script
// with another directory than work: names that unitward makes up are no script's own.
func ofAnother(unit, work string) bool {
	another := false
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cgroups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		if !regexp.MustCompile(`(?m)/` + regexp.QuoteMeta(unit) + `(/|$)`).Match(cgroups) {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		_, of, _ := strings.Cut("\x00"+string(environ), "\x00WORK=")
		of, _, _ = strings.Cut(of, "\x00")
		if of == "" || of == work {
			return false
		}
		another = true
	}
	return another
}

// processes lists the pids whose argument vector is exactly args.
// Those of other pid namespaces are not ours: another machine's of the rig; nor
// are those of which an ordinary user cannot tell.
func processes(args []string) []int {
	want := strings.Join(args, "\x00") + "\x00"
	here, _ := os.Readlink("/proc/self/ns/pid")
	var pids []int
	dirs, _ := os.ReadDir("/proc")
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		b, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline")
		if string(b) != want {
			continue
		}
		if there, err := os.Readlink("/proc/" + d.Name() + "/ns/pid"); err != nil || there != here {
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// systemdVersion is the major version of the systemd under test.
func systemdVersion() int {
	out, err := exec.Command("systemctl", "--version").Output()
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(out))
	if len(fields) < 2 {
		return 0
	}
	digits, _, _ := strings.Cut(fields[1], "~")
	digits, _, _ = strings.Cut(digits, ".")
	n, _ := strconv.Atoi(digits)
	return n
}
