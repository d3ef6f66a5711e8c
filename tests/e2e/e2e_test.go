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
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
	in := regexp.MustCompile(`(?m)/` + regexp.QuoteMeta(unit) + `(/|$)`)
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		cgroups, _ := os.ReadFile(filepath.Join(dir, "cgroup"))
		if !in.Match(cgroups) {
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
