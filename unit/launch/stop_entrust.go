package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// EntrustError says that a stop cannot go on without its caller. Nothing was
// done to the job.
type EntrustError struct {
	Name string
	// Why says who there is, and what is wrong with it.
	Why string
}

func (e *EntrustError) Error() string {
	return fmt.Sprintf("cannot stop job %s without waiting: %s", e.Name, e.Why)
}

// Hint proposes the way out.
func (e *EntrustError) Hint() []string {
	return []string{"stop it and wait with: unitward stop " + verify.Typed(e.Name)}
}

// Entrust is Stop without the wait: it writes the stop down, sends the job its
// kill signal, leaves the SIGKILL after the grace to who is there also when this
// process is not, and returns. That is the manager for a service, whose grace it
// was told at the start, and else the job's reaper. A nil grace is the job's own;
// after a grace of zero SIGKILL is sent before it returns, a little later. The report is of before
// the end: a later Look or Wait proves that.
//
// The errors are those of Stop, and *EntrustError where nobody is there to go on,
// or a manager to keep to another grace.
func (j *Job) Entrust(ctx context.Context, grace *time.Duration) (unit.Report, error) {
	if err := j.started(ctx); err != nil {
		return j.report(j.last), err
	}
	rep, err := j.look(ctx, actWait)
	if err != nil || rep.State == unit.StateSettled || j.last.over() {
		return rep, err
	}
	var ended *unit.EndedError
	var away *unreachedError
	switch err := j.actable("stop"); {
	case errors.As(err, &away) && j.last.v.Tree.Empty:
		return rep, nil // there is nothing to end, and the report says what it is missing
	case errors.As(err, &away):
		return rep, &EntrustError{j.rec().Name, away.why}
	case errors.As(err, &ended) && j.last.o.Cgroup.State != verify.CgroupPopulated && !j.last.o.KeeperGone:
		return j.told(ctx, rep, err)
	case errors.As(err, &ended) && j.last.o.Cgroup.State == verify.CgroupPopulated:
		return rep, &EntrustError{j.rec().Name, "its manager has lost the unit, and processes are left in its cgroup"}
	case err != nil:
		return rep, err
	}
	wait := j.rec().Grace
	if grace != nil {
		wait = *grace
	}
	carries := wait
	if wait > 0 {
		if carries, err = j.held.entrustable(wait); err != nil {
			return rep, err
		}
	}
	first := killAction
	if wait > 0 {
		first = verify.SignalName(j.killSignal())
	}
	unsaved := j.begin(byStop, first)
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil // it ended meanwhile, by itself
	}
	if wait == 0 {
		j.killingAll()
		unsaved = cmp.Or(unsaved, j.took(first, j.held.kill(ctx, j.last), nil))
		rep, err := j.witness(ctx)
		return rep, cmp.Or(err, unsaved)
	}
	unsaved = cmp.Or(unsaved, j.noteDue(now().Add(carries)))
	err, detail := j.held.entrust(wait), ""
	if err == nil {
		detail, err = j.held.terminate(ctx, j.killSignal(), wait)
	}
	unsaved = cmp.Or(unsaved, j.took(first, detail, err))
	if err != nil {
		return rep, err
	}
	return j.report(j.last), unsaved
}

// noteDue writes down when SIGKILL comes from who is there besides this process. Of
// several times the earliest counts.
func (j *Job) noteDue(due time.Time) error {
	return j.note(func(rec *unit.Record) {
		if rec.KillDue == nil || due.Before(*rec.KillDue) {
			rec.KillDue = &due
		}
	})
}

// insureLate is how long after its own SIGKILL a stop has others send one.
const insureLate = time.Second

// insure has the reaper of a job send SIGKILL after a grace, should this process not
// be there any more to do so. Where there is none, a stop depends on who calls it.
func (k *kept) insure(grace time.Duration) {
	if wait, err := k.entrustable(min(grace, maxEntrusted-insureLate) + insureLate); err == nil && grace > 0 && k.entrust(wait) == nil {
		_ = k.j.noteDue(now().Add(wait)) // what cannot be written down, the stop has said already
	}
}

// killedAll is true when the manager has sent, or another process had sent,
// SIGKILL to all of a job: what ends a tender after the grace of a stop is that.
func killedAll(rec *unit.Record, o *verify.Observation) bool {
	ended := o.Unit.MainExitAt
	if ended.IsZero() && o.Recorded != nil {
		ended = o.Recorded.At
	}
	return rec.KilledAll || rec.KillDue != nil && !ended.Before(*rec.KillDue)
}

// entrustable: a manager has the grace that it was told at the start.
func (u *service) entrustable(grace time.Duration) (time.Duration, error) {
	rec := u.j.rec()
	if managerGrace(rec, grace) != managerGrace(rec, rec.Grace) {
		return 0, &EntrustError{rec.Name, fmt.Sprintf("its manager was told a grace of %v at the start, and can be told no other", rec.Grace)}
	}
	return managerGrace(rec, grace), nil
}

// entrust: StopUnit starts the manager's clock.
func (u *service) entrust(time.Duration) error { return nil }

func (k *kept) entrustable(grace time.Duration) (time.Duration, error) {
	if reaper := k.j.rec().Reaper; Ended(reaper) {
		return 0, &EntrustError{k.j.rec().Name, fmt.Sprintf("the reaper %d that would go on with it has ended", reaper.PID)}
	}
	return min(grace, maxEntrusted), nil
}

// maxEntrusted is the longest time that a reaper takes (keeper.Process.EndLater).
const maxEntrusted = math.MaxInt32 * time.Millisecond

func (k *kept) entrust(grace time.Duration) error {
	rec := k.j.rec()
	err := keeper.Process{PID: rec.Reaper.PID, StartTime: rec.Reaper.StartTime}.EndLater(grace)
	if errors.Is(err, unix.ESRCH) {
		return &EntrustError{rec.Name, fmt.Sprintf("the reaper %d that would go on with it has ended", rec.Reaper.PID)}
	}
	return err
}
