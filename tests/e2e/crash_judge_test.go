package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// look asks a verb about the job; nil when there is none.
func (c *crash) look(args ...string) *unit.Report {
	c.t.Helper()
	a := c.w.finish(c.w.cmd(append([]string{"--json"}, args...)...))
	c.log = append(c.log, a.String())
	if strings.Contains(a.out, `"error":{`) || a.out == "" {
		return nil
	}
	var rep unit.Report
	if err := json.Unmarshal([]byte(a.out), &rep); err != nil {
		c.t.Fatalf("%s: %v", a, err)
	}
	c.check(args[0], &rep)
	return &rep
}

// check holds a report against the truth: what runs, what the job wrote down,
// and how its main process ended, as the kernel told the tracer.
func (c *crash) check(verb string, rep *unit.Report) {
	c.t.Helper()
	wrong := func(format string, args ...any) {
		c.t.Helper()
		c.t.Errorf("%s says %s: %s\n%s", verb, rep.State, fmt.Sprintf(format, args...), c)
	}
	if left := c.marked(); (rep.Confirmed || rep.Tree.Empty) && len(left) > 0 {
		wrong("the tree is empty, and there are %v", left)
	}
	notStarted := rep.Reason != nil && *rep.Reason == unit.ReasonStartFailed
	if notStarted && c.ran() > 0 {
		wrong("nothing ran, and it did")
	}
	if rep.Confirmed && !rep.Exit.Known && !notStarted {
		wrong("it confirms what is not known")
	}
	if !rep.Confirmed && rep.State != unit.StateRunning && rep.State != unit.StateStarting && len(rep.Missing) == 0 {
		wrong("it is unconfirmed, and nothing is missing")
	}
	if !rep.Exit.Known || notStarted {
		return
	}
	if main, ok := c.x.find("main", ""); ok && !c.second {
		s := main.Status
		if s.Exited() && (rep.Exit.Code == nil || *rep.Exit.Code != s.ExitStatus()) || s.Signaled() && (rep.Exit.Signal == nil || *rep.Exit.Signal != verify.SignalName(int(s.Signal()))) {
			wrong("its exit is code %v signal %v, and in truth it was %#x", deref(rep.Exit.Code), deref(rep.Exit.Signal), int(s))
		}
	}
	if rep.Exit.Code != nil && *rep.Exit.Code == 7 && !isThere(c.in("code")) {
		wrong("its exit is 7, and it has not ended so")
	}
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// judge wants every job to be found and running, or ended and proven, or
// unknown with what is missing; never twice, never lost.
func (c *crash) judge() {
	c.t.Helper()
	defer c.swept()
	if c.struck && c.strike == nil && c.at.Role == "run" && (c.w.isolation == verify.IsolationService || c.w.isolation == verify.IsolationScope) {
		c.unattended()
	}
	rep := c.look("status", c.name)
	c.states = append(c.states, c.outcome(rep))
	if rep == nil {
		if !eventually(func() bool { return len(c.marked()) == 0 }) || c.ran() > 0 {
			c.t.Errorf("the job is lost: it ran %d times, and there is no record; %v\n%s", c.ran(), c.marked(), c)
		}
		return
	}
	c.listed(rep)
	if c.ran() > 1 {
		c.t.Errorf("the job ran %d times\n%s", c.ran(), c)
	}
	if c.verb == "start" && !rep.Confirmed {
		c.again()
	}
	if !rep.Confirmed {
		c.finish()
	}
	if last := c.look("verify", c.name); last == nil {
		c.t.Errorf("its record is gone\n%s", c)
	} else if !rep.Confirmed {
		c.states = append(c.states, c.outcome(last))
	}
}

// unattended wants nothing of a call that was killed to be left, before anybody looks.
func (c *crash) unattended() {
	c.t.Helper()
	var left []string
	ended := func() bool {
		left = added(c.before, runtimeFiles())
		if c.w.isolation == verify.IsolationScope {
			left = append(left, strings.Fields(loadedUnits(c.name+".scope"))...)
		}
		return len(left) == 0 && len(c.marked()) == 0
	}
	if !eventually(ended) {
		c.t.Errorf("the call was killed, and left %q and %v\n%s", left, c.marked(), c)
	}
}

// swept wants what a launcher that was killed had handed over to be gone with the
// job, and every guard with its scope.
func (c *crash) swept() {
	c.t.Helper()
	a := c.w.do("reap", "--orphans", "--accept-weak")
	var left string
	if !eventually(func() bool { left = c.guards(); return left == "" }) {
		c.t.Errorf("units are left: %s\n%s", left, c)
	}
	for _, f := range runtimeFiles() {
		if !slices.Contains(c.before, f) {
			c.t.Errorf("%s is left: %s\n%s", f, a, c)
			os.Remove(f)
		}
	}
}

// guards lists the scopes of guards. A manager that has lost its bus drops the
// references of that without a look at what they held (bus_done_api(), seen with
// systemd 247 and 257): what had ended stays loaded until there is a job for it.
func (c *crash) guards() (left string) {
	left = loadedUnits("unitward-guard-*.scope")
	for line := range strings.Lines(left) {
		if name, state, _ := strings.Cut(line, " "); c.strike != nil && strings.HasPrefix(strings.TrimSpace(state), "loaded inactive dead ") {
			exec.Command("systemctl", manager(), "stop", name).Run()
		}
	}
	return left
}

// listed wants the job in a list where its end is not confirmed.
func (c *crash) listed(rep *unit.Report) {
	c.t.Helper()
	a := c.w.do("--json", "list")
	if !rep.Confirmed && !strings.Contains(a.out, `"name":"`+c.name+`"`) && c.look("status", c.name).State != unit.StateSettled {
		c.t.Errorf("it is not listed: %s\n%s", a, c)
	}
}

// again starts the job of the same key: while anything of the first one runs, no
// second one does.
func (c *crash) again() {
	c.t.Helper()
	ran, before := c.ran(), c.marked()
	a := c.w.do(c.args()...)
	c.log = append(c.log, a.String())
	if c.ran() == ran {
		return
	}
	c.second = ran > 0
	both := slices.DeleteFunc(c.marked(), func(pid int) bool { return !slices.Contains(before, pid) })
	if len(both) > 0 || c.ran() > ran+1 {
		c.t.Errorf("the key started it a second time: it ran %d times, then %d, and of the first there is %v\n%s", ran, c.ran(), both, c)
	}
}

// finish ends what runs: by itself where that can be seen, else by a stop.
func (c *crash) finish() {
	c.t.Helper()
	if c.end == "settle" {
		c.leave()
		c.look("wait", "--timeout", "5s", c.name)
	}
	rep := c.look("stop", "--grace", "200ms", c.name)
	empty := func() bool { return len(c.marked()) == 0 }
	within := patience
	byHand := rep != nil && c.w.isolation == verify.IsolationGroup && !rep.Confirmed
	if byHand {
		within = 5 * time.Second
	}
	if eventuallyWithin(within, empty) {
		return
	}
	if byHand {
		// What has a session of its own is out of reach once keeper and reaper
		// were killed. It is said; here it ends by hand.
		for _, pid := range c.marked() {
			_ = keeper.Process{PID: pid, StartTime: startOf(c.t, pid)}.Signal(unix.SIGKILL)
		}
		if eventually(empty) {
			return
		}
	}
	c.t.Errorf("processes are left of a job that was stopped: %v\n%s", c.marked(), c)
}

func startOf(t testing.TB, pid int) uint64 {
	t.Helper()
	start, err := keeper.StartTime(pid)
	if err != nil {
		return 0 // it is gone
	}
	return start
}

func eventuallyWithin(within time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// outcome is what a report comes to, in few words.
func (c *crash) outcome(rep *unit.Report) string {
	switch {
	case rep == nil:
		return "nothing ran, no record"
	case rep.Confirmed && rep.Reason != nil && *rep.Reason == unit.ReasonStartFailed:
		return "nothing ran, proven"
	case rep.Confirmed:
		return "ended, proven"
	case rep.State == unit.StateRunning || rep.State == unit.StateStarting || rep.State == unit.StateStopping:
		return "found " + string(rep.State)
	}
	var missing []string
	for _, m := range rep.Missing {
		missing = append(missing, m.What)
	}
	return string(rep.State) + ", missing " + strings.Join(missing, " and ")
}

// String is what went on, for a failure.
func (c *crash) String() string {
	said, _ := os.ReadFile(c.in("said"))
	record, _ := os.ReadFile(filepath.Join(c.w.state, "jobs", c.name, "job.json"))
	kept, _ := os.ReadFile(filepath.Join(c.w.state, "jobs", c.name, "kept"))
	exit, _ := os.ReadFile(filepath.Join(c.w.state, "jobs", c.name, "exit.json"))
	return fmt.Sprintf("%s; said %s\n%s\nrecord %s\nkept %s\nexit %s", c.life, said, strings.Join(c.log, "\n"), record, kept, exit)
}
