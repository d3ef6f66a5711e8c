package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/unitward/unitward/unit/launch" // a part of the program that is built
	"github.com/unitward/unitward/verify"
)

// inRig is true where a systemd of its own is at hand.
func inRig() bool { return os.Getenv("UNITWARD_RIG") != "" }

// TestMain builds the program where nobody has.
func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if program := os.Getenv(tracerVariable); program != "" {
		return runTracer(program)
	}
	if os.Getenv("UNITWARD_BIN") != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "unitward-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// The go command must know what the outcome depends on, or it takes an
	// earlier one: what is imported, and the files that are read here.
	sources, _ := filepath.Glob("../../cmd/unitward/*.go")
	for _, file := range sources {
		if _, err := os.ReadFile(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	bin := filepath.Join(dir, "unitward")
	build := exec.Command("go", "build", "-trimpath", "-o", bin, "github.com/unitward/unitward/cmd/unitward")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the program under test: %v\n%s", err, out)
		return 1
	}
	if err := os.Chmod(dir, 0o755); err != nil { // TestOrdinaryUser is another user
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Setenv("UNITWARD_BIN", bin)
	return m.Run()
}

// kept are the isolations that need no manager to prove anything.
var kept = []string{verify.IsolationScope, verify.IsolationCgroup, verify.IsolationGroup}

// all are all of them.
var all = append([]string{verify.IsolationService}, kept...)

// in runs a test in each isolation, with a ward whose jobs are in it. Where one
// cannot be, the test says why; UNITWARD_TEST_ISOLATION takes those that it
// lists alone.
func in(t *testing.T, isolations []string, test func(t *testing.T, w *ward)) {
	t.Helper()
	only := os.Getenv("UNITWARD_TEST_ISOLATION")
	for _, isolation := range isolations {
		if only != "" && !slices.Contains(strings.Split(only, ","), isolation) {
			continue
		}
		t.Run(isolation, func(t *testing.T) { test(t, newWardIn(t, isolation)) })
	}
}

// newWardIn is newWard for one isolation.
func newWardIn(t *testing.T, isolation string) *ward {
	t.Helper()
	need(t, isolation)
	w := &ward{t: t, state: filepath.Join(t.TempDir(), "state"), isolation: isolation}
	t.Cleanup(func() { w.stopAll() })
	return w
}

// again is a ward like this one, with another state directory.
func (w *ward) again(t *testing.T) *ward {
	t.Helper()
	next := &ward{t: t, state: filepath.Join(t.TempDir(), "state"), isolation: w.isolation}
	t.Cleanup(func() { next.stopAll() })
	return next
}

// need skips a test whose isolation cannot be had here.
func need(t *testing.T, isolation string) {
	t.Helper()
	switch isolation {
	case verify.IsolationService, verify.IsolationScope:
		needRig(t)
		return
	case verify.IsolationGroup:
		return
	}
	if inRig() && os.Geteuid() != 0 && os.Getenv(inScope) == "" {
		t.Skip("cgroup: TestUserScope runs it, in a cgroup that is this user's")
	}
	out, err := exec.Command(program(t), "--state-dir", filepath.Join(t.TempDir(), "state"), "run", "--isolation", isolation, "--", "true").CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() == 125 && strings.Contains(string(out), "cannot use isolation cgroup"):
		t.Skipf("cgroup: %s", out)
	default:
		t.Fatalf("cannot try isolation %s: %v\n%s", isolation, err, out)
	}
}

// inScope is the variable that tells a test binary where it runs.
const inScope = "UNITWARD_TEST_IN_SCOPE"

// TestUserScope runs the tests of isolation cgroup in a scope of the user's own
// manager, as what is started in a desktop or by a user's service. The rig
// itself is in a cgroup of root's, from which no process of a user can get
// anywhere else.
func TestUserScope(t *testing.T) {
	userScope(t, os.Getenv("UNITWARD_TEST_USER_RUN"), "^TestDisturbed")
}

// TestDisturbedUserScope runs there the one test that a manager's disturbance has
// for isolation cgroup.
func TestDisturbedUserScope(t *testing.T) { userScope(t, "^TestDisturbedAfterEnd$", "^$") }

// userScope runs the tests that run matches, or all, but those that skip does.
func userScope(t *testing.T, run, skip string) {
	t.Helper()
	if !inRig() || os.Geteuid() == 0 || os.Getenv(inScope) != "" {
		t.Skip("user: it is for ordinary users of the rig")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("systemd-run", "--user", "--scope", "--collect", "--quiet", "--", self,
		"-test.v", "-test.timeout=18m", "-test.run="+run, "-test.skip="+skip)
	cmd.Env = append(os.Environ(), inScope+"=1", "UNITWARD_TEST_ISOLATION="+verify.IsolationCgroup)
	nested(t, cmd)
}

// nested runs tests as tests of this one.
func nested(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("%s", out)
	}
	if err != nil {
		t.Error(err)
	}
}

// wrapper is a program called unitward that runs jobs in one isolation, for
// scripts: it adds the option, and becomes the program.
func wrapper(t testing.TB, isolation string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	options := "--isolation " + isolation
	start := options
	if !journal() {
		start += " --output null"
	}
	script := fmt.Sprintf(`#!/bin/sh
case $1 in
run) shift; set -- run %s "$@" ;;
start) shift; set -- start %s "$@" ;;
esac
exec %s "$@"
`, options, start, program(t))
	if err := os.WriteFile(filepath.Join(dir, "unitward"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// journal is true where output can go to one.
func journal() bool {
	_, err := os.Stat("/run/systemd/journal/stdout")
	return err == nil
}

// TestOrdinaryUser runs the tests of the isolations that need no manager as a
// user who is not root, below a cgroup that was delegated to him. In the rig,
// and where this is no root, they are run as one anyway.
func TestOrdinaryUser(t *testing.T) {
	const variable, uid = "UNITWARD_TEST_USER", 64711
	if inRig() || os.Getuid() != 0 {
		t.Skip("user: the whole run is one of an ordinary user, or has one beside it")
	}
	dir, err := os.MkdirTemp("/var/tmp", "unitward-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "e2e.test")
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v", "-test.run=" + os.Getenv("UNITWARD_TEST_USER_RUN"), "-test.timeout=18m"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	cmd := exec.Command(binary, args...)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = here // for testdata
	cmd.Env = []string{"HOME=" + dir, "TMPDIR=" + dir, "USER=ordinary", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "UNITWARD_BIN=" + program(t), variable + "=1"}
	for _, name := range []string{"GOCOVERDIR", "UNITWARD_TEST_SEED", "UNITWARD_TEST_KILLS", "UNITWARD_TEST_ISOLATION"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Setsid: true}
	if own := delegate(t, uid); own != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(own.Fd())
	}
	nested(t, cmd)
}

// delegate makes a cgroup that belongs to a user, as a manager would; nil where
// none can be made.
func delegate(t *testing.T, uid int) *os.File {
	t.Helper()
	mount := cgroupMount()
	if mount == "" {
		return nil
	}
	dir := filepath.Join(mount, fmt.Sprintf("unitward-e2e-%d", os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Logf("cgroup: cannot make one for an ordinary user: %v", err)
		return nil
	}
	t.Cleanup(func() {
		left := true
		for range 200 {
			if left = os.Remove(dir) != nil; !left {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if left {
			entries, _ := filepath.Glob(dir + "/*/")
			procs, _ := os.ReadFile(dir + "/cgroup.procs")
			t.Errorf("the cgroup of an ordinary user is not empty: %q, processes %q", entries, procs)
		}
	})
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(dir, syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// cgroupMount is where the root of cgroup v2 is mounted; empty when it is not.
func cgroupMount() string {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(b)) {
		before, after, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(before); len(fields) > 4 && strings.HasPrefix(after, "cgroup2 ") && fields[3] == "/" {
			return fields[4]
		}
	}
	return ""
}
