package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/verify"
)

const storm = "while :; do (sleep .01; setsid sleep 319) & sleep .002; done"

// ways runs a test with cgroup.kill and, as a kernel before 5.14 has it,
// without.
func ways(t *testing.T, f func(t *testing.T, p *Parent, old bool)) {
	for name, old := range map[string]bool{"cgroup.kill": false, "signals": true} {
		t.Run(name, func(t *testing.T) {
			p := place(t)
			if !old {
				u := raw(t, p, "has-kill")
				if u.kill == nil {
					t.Skip("cgroup.kill: needs Linux 5.14")
				}
			}
			f(t, p, old)
		})
	}
}

// without takes cgroup.kill from a unit.
func (u *Unit) without(old bool) *Unit {
	if old && u.kill != nil {
		u.kill.Close()
		u.kill = nil
	}
	return u
}

func TestUnitKill(t *testing.T) {
	ways(t, func(t *testing.T, p *Parent, old bool) {
		for name, script := range map[string]string{
			"storm":      storm,
			"stopped":    "sleep 301 & kill -STOP $!; kill -STOP $$",
			"stubborn":   "trap '' TERM INT HUP; while :; do sleep 300; done",
			"frozen":     "sleep 302 & mkdir $unit/x && sh -c 'echo $$ > $unit/x/cgroup.procs && exec sleep 303' & while ! grep -q 'populated 1' $unit/x/cgroup.events; do sleep .01; done; echo 1 > $unit/x/cgroup.freeze; echo 1 > $unit/cgroup.freeze; exec sleep 304",
			"everything": "(" + storm + ") & sleep 301 & kill -STOP $!; mkdir -p $unit/x/y; sh -c 'echo $$ > $unit/x/y/cgroup.procs && exec sleep 303' & while ! grep -q 'populated 1' $unit/x/cgroup.events; do sleep .01; done; echo 1 > $unit/x/cgroup.freeze; exec sleep 304",
		} {
			t.Run(name, func(t *testing.T) {
				u := raw(t, p, "kill").without(old)
				job(t, u, script)
				switch name {
				case "storm", "everything":
					awaitMembers(t, u, 40)
				case "stopped":
					waitFor(t, func() bool {
						m := u.Read().Members
						return len(m) == 2 && m[0].State == "T" && m[1].State == "T"
					})
				case "frozen":
					waitFor(t, func() bool { frozen, err := u.event("frozen"); return frozen && err == nil })
				default:
					awaitMembers(t, u, 2)
				}
				if name == "everything" {
					waitFor(t, func() bool {
						b, _ := os.ReadFile(u.where(t) + "/x/cgroup.events")
						return strings.Contains(string(b), "frozen 1")
					})
				}
				members, start := len(u.Read().Members), time.Now()
				way, err := u.Kill(bounded(t))
				if want := map[bool]Way{false: WayKill, true: WaySignals}[old]; err != nil || way != want {
					t.Fatalf("Kill = %q, %v", way, err)
				}
				t.Logf("%d members ended in %v", members, time.Since(start))
				if c := u.Read(); c.State != verify.CgroupEmpty {
					t.Errorf("killed, it reads %+v", c)
				}
				if err := u.Remove(bounded(t)); err != nil {
					t.Error(err)
				}
				if way, err := u.Kill(bounded(t)); err != nil || way != WayNone {
					t.Errorf("Kill of what is gone: %q, %v", way, err)
				}
			})
		}
	})
}

// What a job does to its own unit keeps nobody from ending it.
func TestUnitTricks(t *testing.T) {
	deep := "d=$unit; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do d=$d/n; mkdir $d; done; sh -c \"echo \\$\\$ > $d/cgroup.procs && exec sleep 305\" & while ! grep -q 'populated 1' $d/cgroup.events; do sleep .01; done; "
	blind := "chmod 000 $unit/cgroup.*; chmod 000 $unit/n/n/n; chmod 000 $unit/n; chmod 000 $unit; "
	ways(t, func(t *testing.T, p *Parent, old bool) {
		for name, c := range map[string]struct {
			script string
			attach bool // as a later process does
			frozen bool // and comes no further
		}{
			"deep":           {script: deep},
			"blind":          {script: deep + blind},
			"blind later":    {script: deep + blind, attach: true},
			"frozen":         {script: deep + "echo 1 > $unit/n/cgroup.freeze; "},
			"frozen blind":   {script: deep + "exec 9> $unit/cgroup.freeze; " + blind + "echo 1 >&9; ", frozen: true},
			"threaded":       {script: "mkdir $unit/t && echo threaded > $unit/t/cgroup.type && echo $$ > $unit/t/cgroup.threads; "},
			"limited itself": {script: "mkdir $unit/n; echo 0 > $unit/cgroup.max.descendants; echo 0 > $unit/cgroup.max.depth; "},
		} {
			t.Run(name, func(t *testing.T) {
				u := raw(t, p, "tricks").without(old)
				cmd := job(t, u, c.script+"exec sleep 306")
				waitFor(t, func() bool {
					if frozen, err := u.event("frozen"); c.frozen {
						return frozen && err == nil
					}
					m, ok := proc.Describe(cmd.Process.Pid)
					return ok && m.Command == "sleep 306"
				})
				if c.attach {
					later, err := p.h.Attach(u.Path, u.Inode)
					if err != nil {
						t.Fatal(err)
					}
					defer later.Close()
					u = later.without(old)
				}
				if c := u.Read(); c.State != verify.CgroupPopulated || len(c.Members) == 0 {
					t.Errorf("it reads %+v", c)
				}
				if got := u.Usage(); got.CPUNanoseconds == nil || *got.CPUNanoseconds == 0 {
					t.Errorf("it has used %+v", got)
				}
				if err := u.ThawAll(); err != nil {
					t.Errorf("ThawAll: %v", err)
				}
				sent, err := u.Signal(unix.SIGCONT)
				if err != nil || sent.Reached == 0 || len(sent.Denied) > 0 || sent.Unseen > 0 {
					t.Errorf("Signal = %+v, %v", sent, err)
				}
				if _, err := u.Kill(bounded(t)); err != nil {
					t.Fatal(err)
				}
				if err := u.Remove(bounded(t)); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestUnitSignal(t *testing.T) {
	p := place(t)
	u := raw(t, p, "signal")
	file := t.TempDir() + "/got"
	cmd := job(t, u, "mkdir $unit/x; sh -c 'echo $$ > $unit/x/cgroup.procs; trap \"echo inner >> "+file+"; exit\" USR1; echo ready >> "+file+"; while :; do sleep .01; done' & trap 'echo outer >> "+file+"; wait; exit 3' USR1; while ! test -e "+file+"; do sleep .01; done; echo ready >> "+file+"; while :; do sleep .01; done")
	waitFor(t, func() bool { b, _ := os.ReadFile(file); return strings.Count(string(b), "ready") == 2 })
	if err := u.Freeze(bounded(t)); err != nil {
		t.Fatal(err)
	}
	sent, err := u.Signal(unix.SIGUSR1)
	if err != nil || sent.Reached < 2 {
		t.Errorf("Signal = %+v, %v", sent, err)
	}
	if b, _ := os.ReadFile(file); strings.Contains(string(b), "er\n") {
		t.Errorf("a frozen member wrote %q", b)
	}
	if err := u.Thaw(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if err := u.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	b, _ := os.ReadFile(file)
	if strings.Count(string(b), "inner") != 1 || strings.Count(string(b), "outer") != 1 {
		t.Errorf("they wrote %q", b)
	}
	if sent, err := u.Signal(unix.SIGKILL); err != nil || sent.Reached != 0 {
		t.Errorf("Signal to nobody = %+v, %v", sent, err)
	}
	if err := u.Remove(bounded(t)); err != nil {
		t.Fatal(err)
	}
	if sent, err := u.Signal(unix.SIGKILL); err != nil || sent.Reached != 0 {
		t.Errorf("Signal to what is gone = %+v, %v", sent, err)
	}
}

// What the members do about a signal is let be, though it begins while others
// are still to be signalled.
func TestSignalSparesCleanUp(t *testing.T) {
	p := place(t)
	u := raw(t, p, "traps")
	dir := t.TempDir()
	const members = 60
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := job(t, u, fmt.Sprintf(`for i in $(seq %d); do
		sh -c 'trap "sh -c \"sleep .3; exit 7\"; test \$? = 7 && touch %[2]s/clean'$i'; exit" TERM; touch %[2]s/ready'$i'; while :; do read x; done' <>%[2]s/fifo &
	done; trap : TERM; wait; wait`, members, dir))
	count := func(pattern string) int {
		all, err := filepath.Glob(dir + "/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	waitFor(t, func() bool { return count("ready*") == members })
	sent, err := u.Signal(unix.SIGTERM)
	if err != nil || sent.Reached <= members {
		t.Errorf("Signal = %+v, %v", sent, err)
	}
	if err := u.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if n := count("clean*"); n != members {
		t.Errorf("%d of %d have cleaned up", n, members)
	}
}

// A member of another pid namespace is counted, and ended by cgroup.kill.
func TestUnseen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("namespaces: only root may make a pid namespace here")
	}
	p := place(t)
	u := raw(t, p, "unseen")
	if u.kill == nil {
		t.Skip("cgroup.kill: needs Linux 5.14")
	}
	job(t, u, "exec sleep 308")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestUnseenInside$", "-test.v")
	cmd.Env = append(os.Environ(), "UNITWARD_TEST_MOUNT="+p.h.mount, "UNITWARD_TEST_UNIT="+u.Path, fmt.Sprint("UNITWARD_TEST_INODE=", u.Inode))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestUnseenInside") {
		t.Errorf("in a pid namespace: %v\n%s", err, out)
	}
	if c := u.Read(); c.State != verify.CgroupEmpty {
		t.Errorf("it reads %+v", c)
	}
}

// TestUnseenInside is a part of TestUnseen. There is no /proc of its namespace.
func TestUnseenInside(t *testing.T) {
	inode, err := strconv.ParseUint(os.Getenv("UNITWARD_TEST_INODE"), 10, 64)
	if err != nil {
		t.Skip("namespaces: TestUnseen runs it")
	}
	u, err := (&Hierarchy{mount: os.Getenv("UNITWARD_TEST_MOUNT"), root: "/"}).Attach(os.Getenv("UNITWARD_TEST_UNIT"), inode)
	if err != nil {
		t.Fatal(err)
	}
	if sent, err := u.Signal(unix.SIGKILL); err != nil || sent.Reached != 0 || sent.Unseen != 1 {
		t.Errorf("Signal = %+v, %v", sent, err)
	}
	if c := u.Read(); c.State != verify.CgroupPopulated {
		t.Errorf("it reads %+v", c)
	}
	kill := u.kill
	u.kill = nil
	ended, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	var left *OccupiedError
	if _, err := u.Kill(ended); !errors.As(err, &left) || left.Unseen != 1 {
		t.Errorf("Kill by signals: %v", err)
	}
	u.kill = kill
	if way, err := u.Kill(bounded(t)); err != nil || way != WayKill {
		t.Errorf("Kill = %q, %v", way, err)
	}
}

func TestUnitFreeze(t *testing.T) {
	p := place(t)
	u := raw(t, p, "freeze")
	file := t.TempDir() + "/ticks"
	job(t, u, "while :; do echo x >> "+file+"; done")
	size := func() int64 {
		st, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return st.Size()
	}
	for range 3 {
		begun := size()
		waitFor(t, func() bool { return size() > begun })
		if err := u.Freeze(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if frozen, err := u.event("frozen"); !frozen || err != nil {
			t.Errorf("frozen = %v, %v", frozen, err)
		}
		before := size()
		for range 100 {
			if now := size(); now != before {
				t.Fatalf("it runs: %d and %d bytes", before, now)
			}
		}
		if err := u.Thaw(bounded(t)); err != nil {
			t.Fatal(err)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("a reason")
	cancel(reason)
	if err := u.await(ended, "frozen", true); !errors.Is(err, reason) {
		t.Errorf("await with a context that has ended: %v", err)
	}
}

// Waits end with their context, and say who is left.
func TestUnitWait(t *testing.T) {
	p := place(t)
	u := raw(t, p, "wait")
	cmd := job(t, u, "trap '' TERM; sleep 307; :")
	awaitMembers(t, u, 2)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error)
	for range 4 {
		go func() { results <- u.Wait(ctx) }()
	}
	removed := make(chan error)
	go func() { removed <- u.Remove(ctx) }()
	cancel()
	for range 4 {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("Wait: %v", err)
		}
	}
	var left *OccupiedError
	if err := <-removed; !errors.As(err, &left) || len(left.Members) != 2 || !errors.Is(err, context.Canceled) {
		t.Errorf("Remove: %v", err)
	}
	if gone, err := u.gone(); gone || err != nil {
		t.Errorf("it is gone: %v, %v", gone, err)
	}
	for range 4 {
		go func() { results <- u.Wait(bounded(t)) }()
	}
	go func() { removed <- u.Remove(bounded(t)) }()
	if _, err := u.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	for range 4 {
		if err := <-results; err != nil {
			t.Errorf("Wait: %v", err)
		}
	}
	if err := <-removed; err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
	if _, err := u.parent.h.Lookup(u.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lookup: %v", err)
	}
}
