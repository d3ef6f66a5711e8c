package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

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

// need skips a test whose isolation cannot be had here. It does not ask the
// program: one that refused an isolation everywhere would have it tested nowhere.
func need(t *testing.T, isolation string) {
	t.Helper()
	switch isolation {
	case verify.IsolationService:
		needRig(t)
	case verify.IsolationScope:
		needRig(t)
		if cgroupMount() == "" {
			t.Skip("cgroup2: none is mounted here, and without it nobody knows when a scope is empty; TestVMLegacy has it refused")
		}
	case verify.IsolationCgroup:
		if why := noCgroup(); why != "" {
			t.Skip("cgroup: " + why)
		}
	}
}

// noCgroup says why nobody could make a cgroup here; empty where one can be made.
func noCgroup() string {
	mount := cgroupMount()
	if mount == "" {
		return "no cgroup v2 is mounted here; TestVMLegacy has it refused"
	}
	dir := mount
	if os.Geteuid() != 0 {
		dir = ownCgroup()
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Sprintf("%s: %v; TestUserScope and TestOrdinaryUser run it in a cgroup that is this user's", dir, err)
	}
	return ""
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

// ownCgroup is where this process's cgroup of version 2 is in the file system; empty
// when none is mounted.
func ownCgroup() string {
	b, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && cgroupMount() != "" {
			return filepath.Join(cgroupMount(), path)
		}
	}
	return ""
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
