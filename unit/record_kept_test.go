package unit

import (
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

var keptRungs = []string{verify.IsolationScope, verify.IsolationCgroup, verify.IsolationGroup}

// keptRecord is a job that was started with a keeper.
func keptRecord(isolation string) *Record {
	r := record()
	r.Identity.Isolation, r.Identity.InvocationID, r.Identity.Manager = isolation, "", ""
	return r
}

// keptLook is what was looked at: the main process ended with code or signal,
// and nothing is left.
func keptLook(code, signal int) verify.Observation {
	o := verify.Observation{
		At: looked, Nonce: "cc", Identity: verify.Identity{State: verify.IdentitySame},
		Kept: &verify.Kept{Nonce: "cc", Exited: true, Code: code, Signal: signal, ExitAt: ended, Childless: true, ChildlessAt: ended.Add(time.Millisecond)},
	}
	o.Cgroup.State = verify.CgroupGone
	return o
}

func keptReport(r *Record, o verify.Observation) Report {
	o.Isolation = r.Identity.Isolation
	return r.Report(o, verify.Judge(o))
}

func TestKeptState(t *testing.T) {
	running := keptLook(0, 0)
	running.Kept, running.Cgroup.State = nil, verify.CgroupPopulated
	running.Group = verify.Group{State: verify.GroupPopulated, PGID: 4711}
	unread := running
	unread.Cgroup, unread.Group = verify.Cgroup{}, verify.Group{}
	left := running
	left.Kept = &verify.Kept{Nonce: "cc", Exited: true, ExitAt: ended}
	orphaned := running
	orphaned.KeeperGone = true
	foreign := running
	foreign.Identity.State = verify.IdentityForeign
	for _, isolation := range keptRungs {
		for _, c := range []struct {
			name   string
			o      verify.Observation
			change func(*Record, *verify.Observation)
			want   State
		}{
			{"confirmed", keptLook(0, 0), nil, StateSettled},
			{"the main process is not known yet", unread, func(r *Record, _ *verify.Observation) { r.Identity.PID = 0 }, StateStarting},
			{"a scope's id without a main process", unread, func(r *Record, _ *verify.Observation) { r.Identity.PID, r.Identity.InvocationID = 0, ourID }, StateStarting},
			{"running", running, nil, StateRunning},
			{"running, and nothing was looked at", unread, nil, StateRunning},
			{"stopping", running, by("stop"), StateStopping},
			{"ended, processes are left", left, nil, StateEnded},
			{"the keeper is dead", orphaned, nil, StateUnknown},
			{"the keeper is dead, while stopping", orphaned, by("stop"), StateUnknown},
			{"another host", foreign, nil, StateUnknown},
		} {
			r, o := keptRecord(isolation), c.o
			if c.change != nil {
				c.change(r, &o)
			}
			if got := keptReport(r, o).State; got != c.want {
				t.Errorf("%s: %s: the state is %s, want %s", isolation, c.name, got, c.want)
			}
		}
	}
}

func TestKeptReason(t *testing.T) {
	scopes := func(result string) func(*Record, *verify.Observation) {
		return func(r *Record, o *verify.Observation) {
			r.Identity.InvocationID, o.InvocationID = ourID, ourID
			o.Unit = verify.Unit{Read: true, LoadState: "loaded", InvocationID: ourID, Result: result}
		}
	}
	for _, isolation := range keptRungs {
		for _, c := range []struct {
			name   string
			o      verify.Observation
			change func(*Record, *verify.Observation)
			want   Reason
		}{
			{"zero", keptLook(0, 0), nil, ReasonCompleted},
			{"a job's own 124", keptLook(124, 0), asked(time.Second), ReasonFailed},
			{"KILL from anybody", keptLook(0, 9), nil, ReasonSignaled},
			{"stopped", keptLook(0, 15), by("stop"), ReasonCancelled},
			{"stopped, and it exited", keptLook(3, 0), by("signal"), ReasonCancelled},
			{"completed before the rest was stopped", keptLook(0, 0), late, ReasonCompleted},
			{"died before the rest was stopped", keptLook(0, 9), late, ReasonSignaled},
			{"the keeper's clock", keptLook(0, 15), both(asked(time.Second), by("timeout")), ReasonTimeout},
			{"the keeper's clock, answered with 0", keptLook(0, 0), by("timeout"), ReasonTimeout},
			{"its time is up by the manager's word", keptLook(0, 15), both(asked(5*time.Second), scopes("timeout")), ReasonTimeout},
			{"its scope was there before it", keptLook(0, 15), both(both(asked(ended.Sub(started)+time.Millisecond), scopes("timeout")), func(r *Record, _ *verify.Observation) {
				r.CreatedAt = started.Add(-2 * time.Millisecond)
			}), ReasonTimeout},
			{"Result=timeout before the time", keptLook(0, 15), both(asked(time.Minute), scopes("timeout")), ReasonSignaled},
			{"oom by the manager's word", keptLook(0, 9), scopes("oom-kill"), ReasonOOM},
		} {
			r, o := keptRecord(isolation), c.o
			if c.change != nil {
				c.change(r, &o)
			}
			if got := keptReport(r, o).Reason; text(got) != string(c.want) {
				t.Errorf("%s: %s: the reason is %s, want %s", isolation, c.name, text(got), c.want)
			}
		}
		o := keptLook(0, 0)
		o.Kept, o.KeeperGone = nil, true
		if rep := keptReport(keptRecord(isolation), o); text(rep.Reason) != "unknown" || rep.EndedAt != nil || rep.Exit.Known {
			t.Errorf("%s: the keeper died: reason %s, ended at %v, exit %+v", isolation, text(rep.Reason), rep.EndedAt, rep.Exit)
		}
	}
}

func TestKeptMoments(t *testing.T) {
	for _, isolation := range keptRungs {
		o := keptLook(7, 0)
		rep := keptReport(keptRecord(isolation), o)
		if want := ended.Add(time.Millisecond); !rep.Confirmed || rep.EndedAt == nil || !rep.EndedAt.Equal(want) || *rep.DurationMS != 5322 || !rep.Exit.At.Equal(ended) || *rep.Exit.Code != 7 {
			t.Errorf("%s: ended at %v after %v, exit %+v", isolation, rep.EndedAt, rep.DurationMS, rep.Exit)
		}
		o.Identity.State = verify.IdentityOtherBoot
		o.Kept.Childless = false
		if rep := keptReport(keptRecord(isolation), o); !rep.Confirmed || !rep.EndedAt.Equal(ended) {
			t.Errorf("%s: after a reboot it ended at %v", isolation, rep.EndedAt)
		}
	}
	// Without the keeper's moment: since it was looked at, and not since a
	// scope's manager noticed something.
	o := keptLook(0, 0)
	o.Kept.Childless = false
	o.Unit = verify.Unit{Read: true, InactiveEnterAt: started}
	if rep := keptReport(keptRecord(verify.IsolationScope), o); !rep.EndedAt.Equal(looked) {
		t.Errorf("ended at %v", rep.EndedAt)
	}
}

func TestWeakReport(t *testing.T) {
	o := keptLook(0, 0)
	o.Kept.Childless, o.KeeperGone = false, true
	o.Group = verify.Group{State: verify.GroupGone, PGID: 4711, Scan: verify.Scan{State: verify.ScanComplete}}
	o.Cgroup = verify.Cgroup{}
	r := keptRecord(verify.IsolationGroup)
	if rep := keptReport(r, o); rep.State != StateEnded || rep.Confirmed || rep.Grade != verify.GradeWeak || rep.Streams.State != "held" {
		t.Errorf("not accepted: %+v", rep)
	}
	o.AcceptWeak = true
	if rep := keptReport(r, o); rep.State != StateSettled || !rep.Confirmed || rep.Grade != verify.GradeWeak || rep.Streams.State != "closed" {
		t.Errorf("accepted: %+v", rep)
	}
}
