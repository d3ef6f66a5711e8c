package unit

import (
	"time"

	"github.com/unitward/unitward/verify"
)

// reason says why the job ended, from the exit and from systemd's Result,
// which alone would not do: a death by TERM counts as "success" there, and
// "timeout" is also the Result of a stop that had to kill.
func (r *Record) reason(o verify.Observation, v verify.Verdict) Reason {
	result := r.result(o)
	switch {
	case r.TimedOut(o, v):
		return ReasonTimeout
	case r.Stop.By != nil && *r.Stop.By == string(ReasonTimeout):
		return ReasonTimeout
	case result == "oom-kill":
		return ReasonOOM
	case result == string(ReasonOutputLimit), r.Stop.By != nil && *r.Stop.By == string(ReasonOutputLimit):
		return ReasonOutputLimit
	case r.Stop.RequestedAt != nil && !exitAt(o, v).Before(*r.Stop.RequestedAt), r.OwnerEnded(o, v):
		return ReasonCancelled
	case v.Exit.Signal != 0:
		return ReasonSignaled
	case v.Exit.Code != 0:
		return ReasonFailed
	}
	return ReasonCompleted
}

// result is systemd's Result for this start of the unit; empty when it is not
// known.
func (r *Record) result(o verify.Observation) string {
	switch {
	case o.Recorded != nil && o.Recorded.ServiceResult == string(ReasonOutputLimit):
		return o.Recorded.ServiceResult // which systemd does not know of
	case o.Cgroup.OOM:
		return "oom-kill" // in a cgroup of ours, which no manager speaks of
	case o.Unit.Read && o.Unit.InvocationID == r.Identity.InvocationID:
		return o.Unit.Result // also a scope's: its time can be up and its memory out
	case o.Recorded != nil:
		return o.Recorded.ServiceResult
	}
	return ""
}

// TimedOut reports whether systemd ended the job because its time was up.
// Result=timeout alone does not say so: a stop that had to kill has it too. And
// where the main process had failed before, Result tells of that (ExitType=cgroup):
// then a unit that was there when its time was up was ended by it.
func (r *Record) TimedOut(o verify.Observation, v verify.Verdict) bool {
	if r.Timeout == 0 || r.ranFor(o, v) < r.Timeout {
		return false
	}
	switch r.result(o) {
	case "timeout":
		// Where the end was asked for before, the manager killed what would not end.
		return r.Stop.RequestedAt == nil || r.StartedAt == nil || !r.Stop.RequestedAt.Before(r.StartedAt.Add(r.Timeout))
	case "exit-code", "signal", "core-dump":
		return r.Leftovers == LeftoversWait && r.Identity.Isolation == verify.IsolationService && r.Stop.RequestedAt == nil
	}
	return false
}

// OwnerEnded reports whether the end of its owner ended the job, by the manager
// (Lifetime owner): the owner was gone when the recorder ran, and the main
// process died of what a stop sends.
func (r *Record) OwnerEnded(o verify.Observation, v verify.Verdict) bool {
	if r.Lifetime != LifetimeOwner || o.Recorded == nil || !o.Recorded.OwnerGone || o.Recorded.InvocationID != r.Identity.InvocationID {
		return false
	}
	stopped := r.KillSignal
	if stopped == 0 {
		stopped = sigTerm
	}
	return v.Exit.Known && (v.Exit.Signal == stopped || v.Exit.Signal == sigKill)
}

const (
	sigKill = 9
	sigTerm = 15
)

// exitAt is when the main process ended, or at the latest ended: the evidence
// may know no more than when it was looked at.
func exitAt(o verify.Observation, v verify.Verdict) time.Time {
	same := o.Unit.Read && o.Unit.InvocationID == o.InvocationID
	told := o.Unit.InvocationID == "" && o.Recorded != nil
	if (same || told) && !o.Unit.MainExitAt.IsZero() {
		return o.Unit.MainExitAt
	}
	return v.Exit.At
}

// ranFor is how long the timeout had to fire in: to the main process's end,
// or to the unit's where the job is its whole tree.
func (r *Record) ranFor(o verify.Observation, v verify.Verdict) time.Duration {
	if r.StartedAt == nil {
		return 0
	}
	began := *r.StartedAt
	if r.kept() && !r.CreatedAt.IsZero() {
		began = r.CreatedAt // the scope's clock runs before its command does
	}
	end := v.Exit.At
	switch {
	case r.Leftovers != LeftoversKill && !o.Unit.InactiveEnterAt.IsZero():
		end = o.Unit.InactiveEnterAt
	case r.Leftovers != LeftoversKill && o.Recorded != nil && !o.Recorded.At.IsZero():
		end = o.Recorded.At // it is the unit's last process
	case !o.Unit.MainExitAt.IsZero():
		end = o.Unit.MainExitAt
	}
	return end.Sub(began)
}
