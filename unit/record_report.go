package unit

import (
	"time"

	"github.com/unitward/unitward/verify"
)

// Report says what verdict v, reached by observation o, means for the job.
func (r *Record) Report(o verify.Observation, v verify.Verdict) Report {
	rep := Report{
		Schema: ReportSchema, Name: Text(r.Name), Isolation: Text(r.Identity.Isolation), Manager: r.Identity.Manager,
		Unit: Text(r.Identity.Unit), InvocationID: r.Identity.InvocationID, Cgroup: r.Identity.Cgroup,
		BootID: Text(r.Identity.Boot), Host: Text(r.Identity.Host), Command: r.Command, Cwd: Text(r.Cwd),
		Owner: r.Owner, Lifetime: r.Lifetime, PID: Number(r.Identity.PID),
		StartedAt: r.StartedAt, Confirmed: v.Confirmed, Grade: v.Grade,
		Missing: append([]verify.Missing{}, v.Missing...),
		Stop:    r.Stop, Limits: append([]Limit{}, r.Limits...),
		Exit:     exitFact(v.Exit),
		Tree:     TreeFact{Empty: v.Tree.Empty, Source: Text(v.Tree.Source), At: moment(v.Tree.At), Members: append([]verify.Member{}, v.Tree.Members...)},
		Refused:  append([]Refusal{}, r.Refused...),
		LeftUnit: []verify.Member{},
	}
	if far := r.Identity.Far; far != nil {
		rep.Remote, rep.Host, rep.BootID = &far.Remote, Text(far.MachineID), ""
	}
	if r.Identity.Isolation == verify.IsolationGroup {
		rep.Cgroup = "" // recorded to tell strangers by; it is not the job's
	}
	if rep.Stop.Steps == nil {
		rep.Stop.Steps = []Step{}
	}
	if v.Remedy != "" {
		rep.Remedy = &v.Remedy
	}
	rep.State = r.state(o, v)
	rep.Streams = streams(v, r.Output)
	if ended := r.endedAt(o, v); ended != nil {
		rep.EndedAt = ended
		if r.StartedAt != nil {
			ms := max(ended.Sub(*r.StartedAt).Milliseconds(), 0)
			rep.DurationMS = &ms
		}
	}
	if v.Exit.Known {
		reason := r.reason(o, v)
		rep.Reason = &reason
	} else if v.Lost {
		reason := ReasonUnknown
		rep.Reason = &reason
	}
	return rep
}

// StartFailed is the report of a job of which nothing ran.
func (r *Record) StartFailed(at time.Time, detail string) Report {
	v := verify.Verdict{
		Tree:      verify.Tree{Empty: true, Source: "nothing was started", At: at},
		Confirmed: true, Grade: verify.GradeProven,
	}
	rep := r.Report(verify.Observation{At: at}, v)
	reason := ReasonStartFailed
	rep.State, rep.Reason, rep.Exit.Source, rep.EndedAt = StateSettled, &reason, Text(detail), &at
	return rep
}

func (r *Record) state(o verify.Observation, v verify.Verdict) State {
	switch {
	case v.Confirmed:
		return StateSettled
	case v.Lost || o.Identity.State != verify.IdentitySame:
		return StateUnknown
	case r.Stop.RequestedAt != nil:
		return StateStopping
	case v.Exit.Known:
		return StateEnded
	case !r.begun():
		return StateStarting
	case r.kept():
		return StateRunning // its keeper would have told of an end, or be known to be dead
	case o.Unit.Read, o.Cgroup.State == verify.CgroupPopulated:
		return StateRunning
	}
	return StateUnknown
}

// kept is true for a job that a keeper stays with, whose wait is the evidence
// of its exit.
func (r *Record) kept() bool {
	switch r.Identity.Isolation {
	case verify.IsolationScope, verify.IsolationCgroup, verify.IsolationGroup:
		return true
	}
	return false
}

// begun is true once the start is recorded: a service by systemd's id of it,
// the others by their main process, which a keeper starts and names.
func (r *Record) begun() bool {
	if r.kept() {
		return r.Identity.PID != 0
	}
	return r.Identity.InvocationID != ""
}

// endedAt is when the last of the job ended, as far as it is known.
func (r *Record) endedAt(o verify.Observation, v verify.Verdict) *time.Time {
	switch {
	case !v.Confirmed:
		return nil
	case r.kept():
		return keptEnd(o, v)
	case !o.Unit.InactiveEnterAt.IsZero():
		return &o.Unit.InactiveEnterAt
	case o.Recorded != nil:
		return &o.Recorded.At
	}
	return moment(o.At)
}

// keptEnd is when the last of a kept job ended. The keeper, a subreaper, knows
// the moment to which it had no child left; a scope's own times are no evidence.
// After a reboot the exit is the last that was seen, otherwise the tree is
// empty since it was looked at, at the latest.
func keptEnd(o verify.Observation, v verify.Verdict) *time.Time {
	switch k := o.Kept; {
	case k != nil && k.Nonce == o.Nonce && k.Childless && !k.ChildlessAt.IsZero():
		return &k.ChildlessAt
	case o.Identity.State == verify.IdentityOtherBoot:
		return moment(v.Exit.At)
	}
	return moment(v.Tree.At)
}

func exitFact(e verify.Exit) ExitFact {
	f := ExitFact{Known: e.Known, CoreDumped: e.CoreDumped, Source: Text(e.Source), At: moment(e.At)}
	switch {
	case !e.Known:
		f.At = nil
	case e.Signal != 0:
		name := verify.SignalName(e.Signal)
		f.Signal = &name
	default:
		f.Code = &e.Code
	}
	return f
}

func streams(v verify.Verdict, output Output) StreamsFact {
	s := StreamsFact{State: "open", At: moment(v.Tree.At)}
	switch {
	case v.Tree.Empty:
		s.State = "closed" // no process of the job is left that could write
	case v.Exit.Known && output == OutputNull:
		s.State = "closed" // there is nothing to hold
	case v.Exit.Known:
		s.State = "held"
	}
	return s
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
