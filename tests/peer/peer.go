// Package peer has what the tests of unitward's servers share: a program under
// test that speaks JSON-RPC, a message a line, the isolations that it can be
// tested in, and the processes of its jobs.
package peer

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// Patience bounds every wait for a condition. It is no expectation: a test that
// waits this long has failed.
const Patience = time.Minute

// Eventually waits for a condition, and reports whether it came about.
func Eventually(is func() bool) bool {
	for deadline := time.Now().Add(Patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// In runs a test in each isolation that can be had here.
func In(t *testing.T, test func(*testing.T, string)) {
	for _, rung := range Rungs() {
		t.Run(rung, func(t *testing.T) {
			if rung == verify.IsolationCgroup && !inRig() && os.Geteuid() != 0 {
				t.Skip("cgroup: an ordinary user has no delegated cgroup here; the rig has")
			}
			test(t, rung)
		})
	}
}

// Rungs are the isolations that can be used here; where UNITWARD_TEST_ISOLATION
// lists some, no others.
func Rungs() []string {
	rungs := []string{verify.IsolationCgroup, verify.IsolationGroup}
	if inRig() {
		rungs = append([]string{verify.IsolationService, verify.IsolationScope}, rungs...)
	}
	if only := os.Getenv("UNITWARD_TEST_ISOLATION"); only != "" {
		rungs = slices.DeleteFunc(rungs, func(r string) bool { return !slices.Contains(strings.Split(only, ","), r) })
	}
	return rungs
}

func inRig() bool { return os.Getenv("UNITWARD_RIG") != "" }

// markVariable is in the environment of what a test program starts, and of its
// jobs; its value is the program's number.
const markVariable = "UNITWARD_TEST_OF"

// Command is this test program again, as one that keeps its jobs' records in
// state. The variable role, NAME=VALUE, tells it what it is; TestMain takes that
// away. It is where a job of the isolation rung can be made.
func Command(rung, state, role string) *exec.Cmd {
	argv := []string{os.Args[0]}
	if rung == verify.IsolationCgroup && os.Geteuid() != 0 {
		// Where the user's manager lets a cgroup be made.
		argv = append([]string{"systemd-run", "--user", "--scope", "--collect", "--quiet", "-p", "Delegate=yes", "--"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	name, _, _ := strings.Cut(role, "=")
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, name+"=") }),
		role, "UNITWARD_STATE_DIR="+state, markVariable+"="+strconv.Itoa(os.Getpid()))
	cmd.Dir = "/"
	return cmd
}
