package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// markVariable is in the environment of every process of a job under test.
const markVariable = "UNITWARD_TEST_KILL"

// defaultKills is how many processes are killed in one isolation where
// UNITWARD_TEST_KILLS does not say.
const defaultKills = 100

// Caller, keeper, reaper, main process and members are killed at random, in
// any step of a job's life. Whatever was killed, nothing is called ended that
// is not, nothing is left of a job of lifetime call, and no exit is lost that
// somebody could see. The truth is the kernel's: this process is the subreaper
// of all of it, and each job writes down its own code before it ends.
func TestRandomKills(t *testing.T) {
	kills := defaultKills
	if s := os.Getenv("UNITWARD_TEST_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		kills = n
	} else if testing.Short() {
		kills /= 4
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	in(t, kept, func(t *testing.T, w *ward) {
		first, only := uint64(time.Now().UnixNano()), false
		if s := os.Getenv("UNITWARD_TEST_SEED"); s != "" {
			n, err := strconv.ParseUint(s, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			first, only = n, true
		}
		seen := map[string]int{}
		for done, seed := 0, first; done < kills; seed++ {
			x := &trial{t: t, w: w, seed: seed, rnd: rand.New(rand.NewPCG(seed, 3)), dir: filepath.Join(t.TempDir(), fmt.Sprint(seed)), seen: seen}
			x.run()
			done += max(len(x.killed), 1)
			if t.Failed() {
				t.Fatalf("seed %d: %s", seed, x)
			}
			if only {
				break
			}
		}
		for _, what := range slices.Sorted(maps.Keys(seen)) {
			t.Logf("%6d %s", seen[what], what)
		}
	})
}

// strike kills a process of a role, at a moment within most milliseconds of its
// being there; where it does not come to be, or the role is "", any.
func (x *trial) strike(role string, most int) {
	var by map[string][]keeper.Process
	for deadline := time.Now().Add(15 * time.Millisecond); role != ""; {
		if by = x.roles(); len(by[role]) > 0 || len(by) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(200 * time.Microsecond)
	}
	time.Sleep(time.Duration(x.rnd.IntN(most*1000)) * time.Microsecond) // the moment is what is drawn
	if by = x.roles(); len(by) == 0 {
		return
	}
	if len(by[role]) == 0 {
		role = pick(x.rnd, slices.Sorted(maps.Keys(by))...)
	}
	p := pick(x.rnd, by[role]...)
	if p.Signal(unix.SIGKILL) != nil {
		return
	}
	x.killed = append(x.killed, role)
	x.seen["killed "+role]++
	switch role {
	case "caller":
		x.keeper = x.keeper && x.verb == "start"
	case "keeper":
		x.keeper = false
	case "reaper":
		x.reaper = false
	case "unitward":
		// Not told apart: before the record is complete.
		x.keeper, x.reaper = x.keeper && x.verb == "run", false
	}
}

// roles are the processes that run, by what they are.
func (x *trial) roles() map[string][]keeper.Process {
	all, err := keeper.Descendants(os.Getpid())
	if err != nil {
		x.t.Fatal(err)
	}
	rec := x.record()
	by := map[string][]keeper.Process{}
	for _, p := range all {
		if zombie(p.PID) {
			continue
		}
		role := x.role(p, rec)
		by[role] = append(by[role], p)
	}
	return by
}

// role says what a process is.
func (x *trial) role(p keeper.Process, rec *unit.Record) string {
	is := func(q unit.Process) bool { return q.PID == p.PID && q.StartTime == p.StartTime }
	switch {
	case p.PID == x.caller.Process.Pid:
		return "caller"
	case rec != nil && is(rec.Keeper):
		return "keeper"
	case rec != nil && is(rec.Reaper):
		return "reaper"
	case rec != nil && p.PID == rec.Identity.PID && p.StartTime == rec.Identity.StartTime:
		return "main"
	case x.marked(p):
		return "member"
	}
	return "unitward"
}

// marked is true for a process of the job: not for one of unitward's, though
// the caller's environment is theirs.
func (x *trial) marked(p keeper.Process) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	if err != nil || !bytes.Contains(b, fmt.Appendf(nil, "%s=%d\x00", markVariable, x.seed)) {
		return false
	}
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
	return err == nil && exe != program(x.t)
}

// members are the job's processes that run.
func (x *trial) members() []keeper.Process {
	all, err := keeper.Descendants(os.Getpid())
	if err != nil {
		x.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p keeper.Process) bool { return !x.marked(p) })
}

// empty waits until this process has no child left.
func (x *trial) empty(within time.Duration) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(time.Millisecond) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG|unix.WALL, nil)
			if errors.Is(err, unix.ECHILD) {
				return true
			}
			if pid <= 0 {
				break
			}
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// ends is true when nothing has to be done for the job to end.
func (x *trial) ends() bool {
	return x.policy == "kill" && !strings.Contains(x.script, "| cat") && !strings.Contains(x.script, "while") && !strings.Contains(x.script, "exec")
}

func (x *trial) judge() {
	if x.verb == "run" && x.keeper && !x.ends() {
		// It would stay for ever.
		for deadline := time.Now().Add(patience); x.do("stop", "--grace", "50ms", x.name) == nil && x.alive() && time.Now().Before(deadline); {
			time.Sleep(5 * time.Millisecond) // it is being started
		}
	}
	x.await()
	if b, err := os.ReadFile(filepath.Join(x.dir, "report")); err == nil && len(b) > 0 {
		x.check("report", b)
	}
	// With both gone nobody is there to end it, before somebody looks.
	if x.verb == "run" && (x.keeper || x.reaper) {
		if !x.empty(patience) {
			x.t.Errorf("processes are left of a job of lifetime call: %s", x.tree())
			return
		}
	}
	if x.ends() && x.verb == "start" && (x.keeper || x.policy == "wait") {
		x.do("wait", "--timeout", "5s", x.name)
	}
	last := x.do("status", x.name)
	if last == nil { // no job: nothing ran
		if !x.empty(patience) {
			x.t.Errorf("processes are left of no job: %s", x.tree())
		}
		return
	}
	if !last.Confirmed {
		x.do("stop", "--grace", pick(x.rnd, "0s", "50ms"), x.name)
	}
	// What is in a session of its own is out of everybody's reach in a group whose
	// keeper and reaper were killed.
	within, look := patience, "verify"
	if x.w.isolation == verify.IsolationGroup && !x.keeper && !x.reaper {
		look = "status" // looking for two seconds changes nothing
		if len(x.members()) > 0 {
			within = 0
		}
	}
	if !x.empty(within) {
		if x.w.isolation != verify.IsolationGroup || x.keeper || x.reaper {
			x.t.Errorf("processes are left of a job that was stopped: %s", x.tree())
			return
		}
		if last = x.do(look, x.name); last != nil && last.Confirmed {
			x.t.Errorf("confirmed, and there is %s", x.tree())
		}
		x.seen["left in group, and said"]++
		for !x.empty(0) {
			for _, p := range x.members() {
				_ = p.Signal(unix.SIGKILL)
			}
		}
	}
	last = x.do(look, x.name)
	switch {
	case last == nil:
		x.t.Error("the record is gone")
	case (x.keeper || x.reaper) && !last.Exit.Known && (last.Reason == nil || *last.Reason != unit.ReasonStartFailed):
		x.t.Errorf("the exit was lost, and not all of its witnesses: %s", x.raw())
	case (x.keeper || x.reaper) && !last.Confirmed:
		x.t.Errorf("the end is not confirmed: %s", x.raw())
	}
	if rec := x.record(); rec != nil && x.w.isolation == verify.IsolationCgroup && rec.Identity.Cgroup != "" {
		if _, err := os.Stat(cgroupMount() + rec.Identity.Cgroup); err == nil {
			x.t.Errorf("the cgroup %s is left", rec.Identity.Cgroup)
		}
	}
}

// alive is true while the caller has not ended.
func (x *trial) alive() bool { return !zombie(x.caller.Process.Pid) }

func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return err != nil || strings.HasPrefix(rest, "Z")
}
