package launch

import (
	"slices"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// What stands in a step of who took it, where it was not this process.
const (
	// stoppedUnit is a stop that the manager was asked for: its clock runs.
	stoppedUnit = "StopUnit"
	byManager   = "by the manager"
	byReaper    = "by the reaper"
)

// noteSteps completes the record of what was done to end the job: what this process
// did is there already, and what others did by themselves is told by its traces.
func (j *Job) noteSteps(lk look) {
	stop := &j.rec().Stop
	switch {
	case stop.RequestedAt == nil && j.rec().OwnerEnded(lk.o, lk.v):
		by := byOwner
		if stop.By = &by; len(stop.Steps) == 0 {
			stop.Steps = managerSteps(j.killSignal(), j.rec().Grace, j.mainEnd(lk))
		}
	case stop.RequestedAt == nil && stop.By == nil && j.held != nil:
		j.held.noteSteps(lk)
	}
	n := len(stop.Steps)
	if n == 0 {
		return
	}
	if stop.Steps[n-1].Action != killAction {
		if kill, ok := j.killedByOthers(lk); ok {
			stop.Add(kill)
			n = len(stop.Steps)
		}
	}
	stop.Steps[n-1].Sufficed = lk.v.Tree.Empty && !outlived(stop.Steps[n-1], j.mainEnd(lk))
}

const killAction = "KILL"

// outlived is true when SIGKILL ended the main process after a step that sent another
// signal: whoever sent that, the step was not what ended it.
func outlived(s unit.Step, main verify.Exit) bool {
	return s.Action != killAction && main.Signal == sigKill && main.At.After(s.At)
}

// mainEnd is how the main process ended, and when as far as anybody knows.
func (j *Job) mainEnd(lk look) verify.Exit {
	e := lk.v.Exit
	if at := lk.o.Unit.MainExitAt; e.Known && !j.rec().Tended && !at.IsZero() {
		e.At = at
	}
	return e
}

// managerSteps are those by which a manager has ended a main process while nobody
// watched: the times are the latest that they can have been taken at.
func managerSteps(signal int, grace time.Duration, exit verify.Exit) []unit.Step {
	first := unit.Step{At: exit.At, Action: verify.SignalName(signal), Detail: byManager}
	if exit.Signal != sigKill || signal == sigKill {
		return []unit.Step{first}
	}
	first.At = exit.At.Add(-grace)
	return []unit.Step{first, {At: exit.At, Action: killAction, Detail: byManager}}
}

// killedByOthers is the SIGKILL of those who write down nothing: a manager that was
// told to stop the unit, or did so by itself, sends it when its time is up, and so
// does the reaper of a stop that was left to it; and one whose keeper has ended
// before its time ends the job with it.
func (j *Job) killedByOthers(lk look) (unit.Step, bool) {
	rec, o := j.rec(), lk.o
	if o.Isolation != verify.IsolationService {
		return killedByReaper(rec.KillDue, keptEnd(lk))
	}
	began, asked := managerBegan(rec)
	e := ending{
		due: rec.KillDue, main: j.mainEnd(lk), inactive: o.Unit.InactiveEnterAt,
		untended: rec.Tended && exitedByItself(rec.Identity.InvocationID, o), timedOut: rec.TimedOut(o, lk.v),
	}
	if asked && e.due == nil {
		due := began.Add(managerGrace(rec, rec.Grace))
		e.due = &due
	}
	if u, ok := j.held.(*service); ok && u.unit != nil {
		e.trail = u.unit.Trail()
	}
	if o.Unit.InvocationID == rec.Identity.InvocationID {
		e.result = o.Unit.Result
	} else if o.Recorded != nil {
		e.result = o.Recorded.ServiceResult
	}
	if o.Recorded != nil {
		e.recorded = o.Recorded.At
	}
	return e.kill(rec.Stop.Steps[len(rec.Stop.Steps)-1].At)
}

// managerGrace is what a manager is told of a job's grace: TimeoutStopSec=.
func managerGrace(rec *unit.Record, grace time.Duration) time.Duration {
	if rec.Recorder {
		return max(grace, minRecorderGrace)
	}
	return grace
}

// managerBegan is when the manager began to stop the unit; false where only signals
// were sent to it.
func managerBegan(rec *unit.Record) (time.Time, bool) {
	for _, s := range rec.Stop.Steps {
		if s.Detail == stoppedUnit || s.Detail == byManager {
			return s.At, true
		}
	}
	return time.Time{}, false
}

// exitedByItself is true when who tended the job's main process came to an end that
// is not that of a signal.
func exitedByItself(invocation string, o verify.Observation) bool {
	if o.Unit.Read && o.Unit.InvocationID == invocation && o.Unit.ExecMainCode != 0 {
		return o.Unit.ExecMainCode == 1
	}
	return o.Recorded != nil && o.Recorded.ExitCode == "exited"
}

// keptEnd is when the last of a job ended that a reaper stays with; zero where that
// is not known.
func keptEnd(lk look) time.Time {
	switch o := lk.o; {
	case o.Kept != nil && !o.Kept.ChildlessAt.IsZero():
		return o.Kept.ChildlessAt
	case o.KeeperGone:
		return time.Time{}
	}
	return lk.v.Tree.At // seen just before the reaper could say so
}

// killedByReaper is the SIGKILL of a stop that was left to the reaper: a job that was
// still there when it was due was ended by it. A nil due is no such stop.
func killedByReaper(due *time.Time, ended time.Time) (unit.Step, bool) {
	if due == nil || ended.Before(*due) {
		return unit.Step{}, false
	}
	return unit.Step{At: *due, Action: killAction, Detail: byReaper}, true
}

// ending are the traces of how the last of a service ended, which was told to by
// another signal than SIGKILL.
type ending struct {
	// due is when the manager's SIGKILL was; nil where it was to send none.
	due *time.Time
	// trail are the unit's SubStates that its manager signalled, the oldest first.
	// Before systemd 252 those of SIGKILL pass too fast to be signalled.
	trail []string
	// result is systemd's Result; empty where it is not known. timedOut says that it
	// speaks of the job's own timeout.
	result   string
	timedOut bool
	// main is how the job's main process ended.
	main verify.Exit
	// untended is true when who tended that ended by itself, and not as it did.
	untended bool
	// inactive is when the unit came to its end, and recorded when its recorder
	// ran, which was no later; zero is not known.
	inactive, recorded time.Time
}

// kill is the step that ended it: SIGKILL, by the manager or the reaper. ok is false
// where neither sent one that could have: told is when the first signal was sent.
func (e ending) kill(told time.Time) (step unit.Step, ok bool) {
	switch {
	case e.managed():
		at := e.main.At
		if e.due != nil {
			at = *e.due
		}
		return unit.Step{At: at, Action: killAction, Detail: byManager}, true
	case e.untended && e.main.Signal == sigKill && !e.main.At.Before(told):
		return unit.Step{At: e.main.At, Action: killAction, Detail: byReaper}, true
	}
	return unit.Step{}, false
}

// managed is true when the manager sent SIGKILL, because it was due.
func (e ending) managed() bool {
	switch {
	case slices.Contains(e.trail, "stop-sigkill"), slices.Contains(e.trail, "final-sigkill"):
		return true
	case e.due == nil:
		return false
	case !e.inactive.IsZero():
		return !e.inactive.Before(*e.due)
	case !e.recorded.IsZero() && !e.recorded.Before(*e.due):
		return true
	}
	// Nothing dates the end: a service whose stop took too long has this result.
	return e.result == "timeout" && (!e.timedOut || e.main.Signal == sigKill)
}
