package keeper

import (
	"errors"
	"os"
	"os/exec"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDescendants(t *testing.T) {
	s := subreaper(t)
	r := started(t, s, shell("sleep 1000 & (sleep 1001 & exec sleep 1002) & (setsid sleep 1003 &) ; exec sleep 1004"))
	// The reaper's: the main process, its four, and no more.
	var all []Process
	waitFor(t, func() bool {
		var err error
		if all, err = Descendants(r.PID()); err != nil {
			t.Fatal(err)
		}
		return len(commands(t, r.PID(), "sleep")) == 5 && len(all) == 5
	})
	for _, p := range all {
		if start, err := StartTime(p.PID); err != nil || start != p.StartTime {
			t.Errorf("%+v started at %d, %v", p, start, err)
		}
	}
	if mine, err := Descendants(os.Getpid()); err != nil || len(mine) < 6 || mine[0].PID != r.PID() && len(mine) == 6 {
		t.Errorf("ours are %v, %v", mine, err)
	}
	// Both ways to find them say the same.
	for _, p := range append(all, Process{PID: r.PID()}) {
		listed, err := childrenOf(p.PID)
		found, err2 := childrenByParent(p.PID)
		sort.Ints(listed)
		sort.Ints(found)
		if err != nil || err2 != nil || !reflect.DeepEqual(listed, found) {
			t.Errorf("the children of %d: %v, %v and %v, %v", p.PID, listed, err, found, err2)
		}
	}
	for _, p := range all {
		if err := p.Signal(unix.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	childless(t, r)
	if none, err := Descendants(r.PID()); err != nil || len(none) > 0 {
		t.Errorf("of one that is gone: %v, %v", none, err)
	}
}

// A parent that ends after its own parent was read gives its child to that one.
func TestDescendantsMove(t *testing.T) {
	for name, script := range map[string]string{
		"it is gone":                   "sleep 1005 & wait",
		"several, one after the other": "(exec sleep 1005) & (sh -c 'sleep 1005 & wait' & exec sleep 1005) & wait",
	} {
		t.Run(name, func(t *testing.T) {
			r := started(t, subreaper(t), shell(script))
			sleeps := strings.Count(script, "sleep")
			waitFor(t, func() bool { return len(commands(t, r.PID(), "sleep")) == sleeps })
			moved := 0
			found, err := descendants(r.PID(), func(pid int) ([]int, error) {
				children, err := childrenOf(pid)
				if pid == r.PID() || len(children) == 0 || moved == 3 {
					return children, err
				}
				moved++
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					t.Error(err)
				}
				waitFor(t, func() bool {
					p, err := readStat(children[0])
					killed, gone := readStat(pid)
					return err == nil && p.parent == r.PID() && (gone != nil || killed.ended())
				})
				return childrenOf(pid)
			})
			left := 0
			for _, p := range found {
				if s, err := readStat(p.PID); err == nil && !s.ended() {
					left++
				}
			}
			if want := len(commands(t, r.PID(), "sleep")); err != nil || moved == 0 || left != want || want == 0 {
				t.Errorf("%d of %d are found after %d moved: %v, %v", left, want, moved, found, err)
			}
		})
	}
}

// commands lists the descendants of a process that run a program: one that has
// ended and was not waited for keeps its name.
func commands(t *testing.T, pid int, name string) (out []Process) {
	t.Helper()
	all, err := Descendants(pid)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		s, err := readStat(p.PID)
		if b, _ := os.ReadFile("/proc/" + strconv.Itoa(p.PID) + "/comm"); err == nil && !s.ended() && string(b) == name+"\n" {
			out = append(out, p)
		}
	}
	return out
}

func TestSignalIdentity(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := Process{PID: cmd.Process.Pid}
	var err error
	if p.StartTime, err = StartTime(p.PID); err != nil {
		t.Fatal(err)
	}
	if err := p.Signal(0); err != nil {
		t.Error(err)
	}
	// As if the number was another's before.
	if err := (Process{p.PID, p.StartTime - 1}).Signal(unix.SIGKILL); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a signal to an earlier one: %v", err)
	}
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(interface{ Signaled() bool }).Signaled() == false {
		t.Errorf("it ended with %v", err)
	}
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, unix.ESRCH) {
		t.Errorf("a signal to one that is gone: %v", err)
	}
}
