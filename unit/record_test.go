package unit

import (
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

const ourID = "0123456789abcdef0123456789abcdef"

var (
	started = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	ended   = started.Add(5321 * time.Millisecond)
	looked  = ended.Add(time.Second)
)

// record is a job that was started.
func record() *Record {
	return &Record{
		Schema: RecordSchema, Name: "unitward-make-7f3a90c1",
		Identity: Identity{
			Host: "aa", Boot: "bb", UID: 1000, Isolation: verify.IsolationService, Manager: ManagerUser,
			Unit: "unitward-make-7f3a90c1.service", Nonce: "cc", InvocationID: ourID, Cgroup: "/user.slice/x", CgroupInode: 7, PID: 4711,
		},
		Command: []string{"make", "test"}, Cwd: "/src", Owner: "s1", Lifetime: LifetimeDetached, Leftovers: LeftoversKill,
		Grace: DefaultGrace, StartedAt: &started,
	}
}

// seen is what was looked at, with the manager's Result.
func seen(result string) verify.Observation {
	return verify.Observation{
		At: looked, InvocationID: ourID, Identity: verify.Identity{State: verify.IdentitySame},
		Unit: verify.Unit{Read: true, InvocationID: ourID, Result: result, MainExitAt: ended, InactiveEnterAt: ended},
	}
}

// proof is a confirmed end.
func proof(code, signal int) verify.Verdict {
	return verify.Verdict{
		Exit:      verify.Exit{Known: true, Code: code, Signal: signal, Source: "systemd", At: ended},
		Tree:      verify.Tree{Empty: true, Source: "cgroup.events populated 0", At: looked},
		Confirmed: true, Grade: verify.GradeProven,
	}
}

func stoppedAt(at time.Time) func(*Record, *verify.Observation) {
	return func(r *Record, _ *verify.Observation) {
		who := "stop"
		r.Stop.By, r.Stop.RequestedAt = &who, &at
	}
}

func by(who string) func(*Record, *verify.Observation) {
	return func(r *Record, _ *verify.Observation) {
		if who != "" {
			r.Stop.By = &who
		}
		r.Stop.RequestedAt = &ended
	}
}

// late is a stop that came when the main process had ended.
func late(r *Record, _ *verify.Observation) {
	at := ended.Add(time.Millisecond)
	r.Stop.RequestedAt = &at
}

// owned is a job of lifetime owner, whose recorder found the owner gone or not.
func owned(gone bool, killSignal int) func(*Record, *verify.Observation) {
	return func(r *Record, o *verify.Observation) {
		r.Lifetime, r.KillSignal = LifetimeOwner, killSignal
		o.Recorded = &verify.Recorded{InvocationID: ourID, OwnerGone: gone}
	}
}

func asked(timeout time.Duration) func(*Record, *verify.Observation) {
	return func(r *Record, _ *verify.Observation) { r.Timeout = timeout }
}

func both(fs ...func(*Record, *verify.Observation)) func(*Record, *verify.Observation) {
	return func(r *Record, o *verify.Observation) {
		for _, f := range fs {
			f(r, o)
		}
	}
}

func TestReason(t *testing.T) {
	const second = time.Second
	recordedResult := func(result string) func(*Record, *verify.Observation) {
		return func(_ *Record, o *verify.Observation) {
			o.Unit = verify.Unit{Err: "gone"}
			o.Recorded = &verify.Recorded{InvocationID: ourID, ServiceResult: result, At: ended}
		}
	}
	inService := func(r *Record, _ *verify.Observation) { r.Identity.Isolation = verify.IsolationService }
	leftovers := func(l Leftovers, inactive time.Time) func(*Record, *verify.Observation) {
		return func(r *Record, o *verify.Observation) { r.Leftovers, o.Unit.InactiveEnterAt = l, inactive }
	}
	for _, c := range []struct {
		name   string
		result string
		v      verify.Verdict
		change func(*Record, *verify.Observation)
		want   Reason
	}{
		{"zero", "success", proof(0, 0), nil, ReasonCompleted},
		{"a code", "exit-code", proof(2, 0), nil, ReasonFailed},
		{"a job's own 124 is no timeout", "exit-code", proof(124, 0), asked(time.Minute), ReasonFailed},
		{"a job's own 137 is no signal", "exit-code", proof(137, 0), nil, ReasonFailed},
		{"KILL from anybody", "signal", proof(0, 9), nil, ReasonSignaled},
		{"TERM counts as success for systemd", "success", proof(0, 15), nil, ReasonSignaled},
		{"core", "core-dump", proof(0, 11), nil, ReasonSignaled},

		{"timeout", "timeout", proof(0, 15), asked(5 * second), ReasonTimeout},
		{"timeout that the job answered with 0", "timeout", proof(0, 0), asked(5 * second), ReasonTimeout},
		{"timeout as the recorder has it", "", proof(0, 15), both(asked(5*second), recordedResult("timeout")), ReasonTimeout},
		{"Result=timeout and none asked: a stop had to kill", "timeout", proof(0, 9), nil, ReasonSignaled},
		{"Result=timeout before the time: a stop had to kill", "timeout", proof(0, 9), both(asked(time.Minute), by("stop")), ReasonCancelled},
		{"a stop before the time, that had to kill after it", "timeout", proof(0, 9), both(asked(5*second), stoppedAt(started.Add(4*second))), ReasonCancelled},
		{"a stop after the time", "timeout", proof(0, 9), both(asked(5*second), stoppedAt(started.Add(5*second))), ReasonTimeout},
		{"asked, and ended by itself", "success", proof(0, 0), asked(second), ReasonCompleted},
		{"our own clock", "success", proof(0, 15), by("timeout"), ReasonTimeout},
		{"our own clock and a code", "exit-code", proof(1, 0), by("timeout"), ReasonTimeout},
		{"leftovers wait: the tree's time counts", "timeout", proof(0, 0),
			both(asked(10*second), leftovers(LeftoversWait, started.Add(10*second))), ReasonTimeout},
		{"leftovers wait: ended before", "timeout", proof(0, 0),
			both(asked(10*second), leftovers(LeftoversWait, started.Add(9*second))), ReasonCompleted},
		{"leftovers wait: the main process had failed before", "exit-code", proof(3, 0),
			both(asked(10*second), leftovers(LeftoversWait, started.Add(10*second)), inService), ReasonTimeout},
		{"leftovers wait: it had failed, and all ended before", "exit-code", proof(3, 0),
			both(asked(10*second), leftovers(LeftoversWait, started.Add(9*second)), inService), ReasonFailed},
		{"leftovers wait: it had failed, as the recorder has it", "", proof(3, 0),
			both(asked(5*second), recordedResult("exit-code"), leftovers(LeftoversWait, time.Time{}), inService), ReasonTimeout},
		{"leftovers kill: the main process's time counts", "timeout", proof(0, 0),
			both(asked(10*second), leftovers(LeftoversKill, started.Add(15*second))), ReasonCompleted},

		{"oom", "oom-kill", proof(0, 9), nil, ReasonOOM},
		{"oom of another member", "oom-kill", proof(0, 15), nil, ReasonOOM},
		{"oom as the recorder has it", "", proof(0, 9), recordedResult("oom-kill"), ReasonOOM},
		{"stopped", "success", proof(0, 15), by("stop"), ReasonCancelled},
		{"stopped, and it exited", "exit-code", proof(3, 0), by("signal"), ReasonCancelled},
		{"it had completed before the rest was stopped", "success", proof(0, 0), late, ReasonCompleted},
		{"it had failed before", "exit-code", proof(3, 0), late, ReasonFailed},
		{"it had died before", "signal", proof(0, 9), late, ReasonSignaled},
		{"the owner's end", "success", proof(0, 15), owned(true, 0), ReasonCancelled},
		{"the owner's end, and KILL", "timeout", proof(0, 9), owned(true, 0), ReasonCancelled},
		{"the owner's end, by the job's own signal", "success", proof(0, 2), owned(true, 2), ReasonCancelled},
		{"the owner's end, and another signal", "success", proof(0, 2), owned(true, 0), ReasonSignaled},
		{"the owner's end, and a code", "exit-code", proof(3, 0), owned(true, 0), ReasonFailed},
		{"the owner is there", "success", proof(0, 15), owned(false, 0), ReasonSignaled},
		{"another start's Result says nothing", "oom-kill", proof(0, 0),
			func(_ *Record, o *verify.Observation) { o.Unit.InvocationID = "ffff" }, ReasonCompleted},
	} {
		r, o := record(), seen(c.result)
		if c.change != nil {
			c.change(r, &o)
		}
		rep := r.Report(o, c.v)
		if rep.Reason == nil || *rep.Reason != c.want {
			t.Errorf("%s: the reason is %v, want %s", c.name, text(rep.Reason), c.want)
		}
	}
}

func text[T ~string](s *T) string {
	if s == nil {
		return "nil"
	}
	return string(*s)
}

func TestReasonWithoutAnExit(t *testing.T) {
	lost := verify.Verdict{Lost: true, Missing: []verify.Missing{{What: verify.MissingExit}}}
	if rep := record().Report(seen("success"), lost); text(rep.Reason) != "unknown" || rep.Exit.Code != nil || rep.Exit.Signal != nil {
		t.Errorf("a lost exit: reason %s, exit %+v", text(rep.Reason), rep.Exit)
	}
	if rep := record().Report(seen("success"), verify.Verdict{}); rep.Reason != nil {
		t.Errorf("a running job has the reason %s", *rep.Reason)
	}
}

func TestState(t *testing.T) {
	running := verify.Verdict{}
	known := verify.Verdict{Exit: verify.Exit{Known: true}}
	lost := verify.Verdict{Lost: true}
	for _, c := range []struct {
		name   string
		v      verify.Verdict
		change func(*Record, *verify.Observation)
		want   State
	}{
		{"confirmed", proof(0, 0), nil, StateSettled},
		{"confirmed while stopping", proof(0, 0), by("stop"), StateSettled},
		{"confirmed by the recorder after a reboot", proof(0, 0), func(_ *Record, o *verify.Observation) {
			o.Identity.State = verify.IdentityOtherBoot
		}, StateSettled},
		{"lost", lost, nil, StateUnknown},
		{"lost while stopping", lost, by("stop"), StateUnknown},
		{"another host", running, func(_ *Record, o *verify.Observation) { o.Identity.State = verify.IdentityForeign }, StateUnknown},
		{"unchecked", running, func(_ *Record, o *verify.Observation) { o.Identity.State = verify.IdentityUnchecked }, StateUnknown},
		{"stopping", running, by("stop"), StateStopping},
		{"stopping, the main process gone", known, by("stop"), StateStopping},
		{"ended", known, nil, StateEnded},
		{"starting", running, func(r *Record, _ *verify.Observation) { r.Identity.InvocationID = "" }, StateStarting},
		{"running by the manager's word", running, nil, StateRunning},
		{"running by the cgroup", running, func(_ *Record, o *verify.Observation) {
			o.Unit = verify.Unit{Err: "no answer"}
			o.Cgroup.State = verify.CgroupPopulated
		}, StateRunning},
		{"nobody answers", running, func(_ *Record, o *verify.Observation) { o.Unit = verify.Unit{Err: "no answer"} }, StateUnknown},
	} {
		r, o := record(), seen("success")
		if c.change != nil {
			c.change(r, &o)
		}
		if got := r.Report(o, c.v).State; got != c.want {
			t.Errorf("%s: the state is %s, want %s", c.name, got, c.want)
		}
	}
}
