package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// inScope is the variable that tells a test binary where it runs.
const inScope = "UNITWARD_TEST_IN_SCOPE"

// TestUserScope runs the tests of isolation cgroup in a scope of the user's own
// manager, as what is started in a desktop or by a user's service. The rig
// itself is in a cgroup of root's, from which no process of a user can get
// anywhere else.
func TestUserScope(t *testing.T) {
	userScope(t, os.Getenv("UNITWARD_TEST_USER_RUN"), "^TestDisturbed|^Fuzz")
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
	nested(t, cmd, run, verify.IsolationCgroup)
}

// nested runs the tests that run matches, or all, as tests of this one. An inner
// run that skips an isolation passes too: those that it must have tested are
// named.
func nested(t *testing.T, cmd *exec.Cmd, run string, isolations ...string) {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("%s", out)
	}
	if err != nil {
		t.Error(err)
	}
	for _, why := range untested(out, run, isolations) {
		t.Error(why)
	}
}

// untested says what the output of tests lacks of the isolations.
func untested(out []byte, run string, isolations []string) (why []string) {
	test := `TestScripts`
	if run != "" {
		test = `Test[^ ]+`
	}
	only := os.Getenv("UNITWARD_TEST_ISOLATION")
	for _, isolation := range isolations {
		if only != "" && !slices.Contains(strings.Split(only, ","), isolation) {
			continue
		}
		if !regexp.MustCompile(`(?m)^ *--- PASS: ` + test + `/` + isolation + `[ /]`).Match(out) {
			why = append(why, fmt.Sprintf("%s/%s has not passed: isolation %s was not tested", test, isolation, isolation))
		}
		if skip := regexp.MustCompile(`(?m)^ *\w+_test\.go:\d+: ` + isolation + `: .*`).Find(out); skip != nil {
			why = append(why, fmt.Sprintf("isolation %s was skipped: %s", isolation, bytes.TrimSpace(skip)))
		}
	}
	return why
}

// What a run has to show counts, not how it ended.
func TestUntested(t *testing.T) {
	const passed = "=== RUN   TestScripts\n    --- PASS: TestScripts/cgroup (1.00s)\n        --- PASS: TestScripts/cgroup/a (1.00s)\n    --- PASS: TestStop/group (1.00s)\n        --- PASS: TestEnd/late-er/scope (1.00s)\n"
	const skipped = "    --- PASS: TestStop/cgroup (1.00s)\n    --- SKIP: TestScripts/cgroup (0.00s)\n        a_test.go:1: cgroup: not here\n"
	for _, c := range []struct {
		out, run   string
		isolations []string
		want       int
	}{
		{passed, "", []string{verify.IsolationCgroup}, 0},
		{passed, "", nil, 0},
		{passed, "^TestEnd", []string{verify.IsolationScope}, 0},
		{passed, "", []string{verify.IsolationCgroup, verify.IsolationGroup}, 1},
		{passed, "^TestStop", []string{verify.IsolationGroup}, 0},
		{skipped, "", []string{verify.IsolationCgroup}, 2},
		{skipped, "^TestStop", []string{verify.IsolationCgroup}, 1},
		{"PASS\n", "^TestStop", []string{verify.IsolationCgroup}, 1},
	} {
		t.Setenv("UNITWARD_TEST_ISOLATION", "")
		if got := untested([]byte(c.out), c.run, c.isolations); len(got) != c.want {
			t.Errorf("%q of %q, %v: %q", c.run, c.out, c.isolations, got)
		}
		t.Setenv("UNITWARD_TEST_ISOLATION", "scope")
		if got := untested([]byte(c.out), c.run, c.isolations); got != nil {
			t.Errorf("none of it is wanted: %q", got)
		}
	}
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
	run := os.Getenv("UNITWARD_TEST_USER_RUN")
	args := []string{"-test.v", "-test.run=" + run, "-test.timeout=18m"}
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
	isolations := []string{verify.IsolationGroup}
	if own := delegate(t, uid); own != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(own.Fd())
		isolations = append(isolations, verify.IsolationCgroup)
	}
	nested(t, cmd, run, isolations...)
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
