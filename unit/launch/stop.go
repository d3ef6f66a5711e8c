package launch

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// killWait is how long a stop waits for the proof after KILL. What is left
// then does not obey the kernel's KILL: it sleeps uninterruptibly.
const killWait = 5 * time.Second

// wordWait bounds how long a stop waits for a manager that is busy to say how a
// job has ended of which nothing is left.
const wordWait = time.Minute

// witnessWait is how long a sender of SIGKILL stays to see what comes of it.
const witnessWait = time.Second

// forwardWait bounds the attempts to forward a signal.
const forwardWait = 5 * time.Second

// Who asks for an end, as it stands in the report.
const (
	byStop      = "stop"
	bySignal    = "signal"
	byTimeout   = "timeout"
	byLeftovers = "leftovers"
	byOwner     = "owner"
	byOutput    = string(unit.ReasonOutputLimit)
)

// Stop ends the job and everything of it: the kill signal to all, the grace,
// SIGKILL to the whole unit, proof. It returns at the proof, or when a bounded
// wait after SIGKILL has none; the report then says what is left. A job that
// had already ended is not touched, and its report says so: Stop.RequestedAt
// is nil. So does that of a job which ended and whose outcome is lost, which
// is not confirmed.
//
// The error is a *unit.IdentityError when what is there is not the job, or
// that of a manager which refuses; then nothing is known to have changed. What
// cannot be written down is done all the same: the report then comes with a
// *store.DirError, or whatever else the record has come to.
func (j *Job) Stop(ctx context.Context, grace time.Duration) (unit.Report, error) {
	return j.stop(ctx, grace, byStop)
}

// Interrupt is Stop for a caller who got a signal to end.
func (j *Job) Interrupt(ctx context.Context, grace time.Duration) (unit.Report, error) {
	return j.stop(ctx, grace, bySignal)
}

func (j *Job) stop(ctx context.Context, grace time.Duration, by string) (unit.Report, error) {
	if err := j.started(ctx); err != nil {
		return j.report(j.last), err
	}
	if rep, done, err := j.stopOwn(ctx, grace, by); done {
		return rep, err
	}
	next := func() {}
	if at := seatOf(&j.rec().Identity); j.rec().Identity.Isolation == verify.IsolationScope && !j.l.silent(at) {
		var err error
		if next, err = j.l.turn(ctx); err != nil {
			return j.report(j.last), err
		}
		defer next()
	}
	rep, err := j.look(ctx, actWait)
	if err != nil || rep.State == unit.StateSettled {
		return rep, err
	}
	if j.last.over() {
		return rep, nil
	}
	if err := j.actable("stop"); err != nil {
		var ended *unit.EndedError
		var away *unreachedError
		populated := j.last.o.Cgroup.State == verify.CgroupPopulated
		switch {
		case errors.As(err, &away) && j.last.v.Tree.Empty:
			return rep, nil // there is nothing to end, and the report says what it is missing
		case errors.As(err, &away) && populated:
			return j.stopWith(ctx, grace, by, FactTree, rep, func() (string, error) { return j.alone(j.killSignal()) })
		case !errors.As(err, &ended):
			return rep, err
		case !populated && !j.last.v.Lost && !j.last.o.KeeperGone:
			// The tree is empty, and who saw the main process end is about to
			// say so.
			return j.told(ctx, rep, err)
		case !populated:
			return rep, nil // it has ended, and the report says what of that is not known
		}
		// The manager lost the unit, but the cgroup is there and the recorded
		// one: what is in it is the job's.
		return j.stopWith(ctx, grace, by, FactTree, rep, func() (string, error) { return j.alone(j.killSignal()) })
	}
	return j.stopWith(ctx, grace, by, FactSettled, rep, func() (string, error) {
		defer next()
		if k, ok := j.held.(*kept); ok {
			k.insure(grace)
		}
		return j.held.terminate(ctx, j.killSignal(), grace)
	})
}

// stopOwn is Stop for a job that this process started and stays with, and that is
// seen to run: neither its manager need say who it is, nor anybody what is in it,
// before it is told to stop. done is false where there is more to look at.
func (j *Job) stopOwn(ctx context.Context, grace time.Duration, by string) (rep unit.Report, done bool, err error) {
	switch b := j.held.(type) {
	case *service:
		if !b.started || !b.undisturbed() {
			return rep, false, nil
		}
	case *kept:
		if !b.quiet() {
			return rep, false, nil
		}
	default:
		return rep, false, nil
	}
	next, err := j.l.turn(ctx)
	if err != nil {
		return rep, true, err
	}
	defer next()
	at := seatOf(&j.rec().Identity)
	rep, ok := j.seenRunning()
	if !ok || managed(j.rec().Identity.Isolation) && j.l.silent(at) {
		return rep, false, nil
	}
	rep, err = j.stopWith(ctx, grace, by, FactSettled, rep, func() (string, error) {
		defer next()
		asked, cancel := context.WithTimeout(ctx, actWait)
		defer cancel()
		return j.held.terminate(asked, j.killSignal(), grace)
	})
	var unknown *unit.UnknownOutcomeError
	if !errors.As(err, &unknown) || ctx.Err() != nil {
		return rep, true, err
	}
	j.l.noteSilence(at)
	return rep, false, nil
}

// stopWith is what follows once it is clear that there is something to end:
// terminate sends the signal, and fact is what it is to lead to.
func (j *Job) stopWith(ctx context.Context, grace time.Duration, by string, fact Fact, rep unit.Report, terminate func() (string, error)) (unit.Report, error) {
	first := verify.SignalName(j.killSignal())
	unsaved := j.begin(by, first)
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil // it ended meanwhile, by itself
	}
	detail, err := terminate()
	unsaved = cmp.Or(unsaved, j.took(first, detail, err))
	if err != nil {
		return rep, err
	}
	waited, cancel := context.WithTimeout(ctx, grace)
	rep, err = j.Wait(waited, fact)
	cancel()
	switch {
	case rep.State == unit.StateSettled:
		return rep, cmp.Or(err, unsaved)
	case err == nil && j.last.v.Tree.Empty:
		return rep, unsaved // it is proven empty, and its outcome is not to be had
	case ctx.Err() != nil:
		return rep, ctx.Err()
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return rep, err
	}
	rep, err = j.kill(ctx)
	return rep, cmp.Or(err, unsaved)
}

// told waits for the word on a job that has ended by itself; where it does not
// come, the report and the error are those given.
func (j *Job) told(ctx context.Context, rep unit.Report, ended error) (unit.Report, error) {
	waited, cancel := context.WithTimeout(ctx, witnessWait)
	defer cancel()
	if late, err := j.Wait(waited, FactSettled); err == nil && late.Confirmed {
		return late, nil
	}
	return rep, ended
}

// actable refuses to act on what is not the recorded job.
func (j *Job) actable(op string) error {
	if j.rec().Sealed != nil {
		return &unit.EndedError{Op: op, Name: j.rec().Name}
	}
	if state := j.last.o.Identity; state.State != verify.IdentitySame {
		return &unit.IdentityError{Name: j.rec().Name, Detail: state.Detail}
	}
	return j.held.actable(op, j.last)
}

// kill ends everything that is left, and waits for the proof. The end of the
// grace can cut the last look off in the middle, and what was not seen is not
// acted on: so it looks again.
func (j *Job) kill(ctx context.Context) (unit.Report, error) {
	lk := j.last
	if u, ok := j.held.(*service); !ok || !u.lives() {
		looked, cancel := context.WithTimeout(ctx, j.patience(lookWait))
		lk = j.observe(looked, dbusclient.DepthVerdict)
		cancel()
		switch {
		case lk.v.Confirmed:
			return j.settle(ctx, lk)
		case ok && u.over(lk):
			return j.proof(ctx) // there is nothing to kill, and the manager has not said so yet
		}
	}
	j.killingAll()
	unsaved := j.step(killAction)
	unsaved = cmp.Or(unsaved, j.took(killAction, j.held.kill(ctx, lk), nil))
	rep, err := j.proof(ctx)
	return rep, cmp.Or(err, unsaved)
}

// proof waits for the proof after SIGKILL, for a time that begins anew as long as
// the manager of a service that has no process any more is heard of: with a thousand
// to end, it comes to each in its turn.
func (j *Job) proof(ctx context.Context) (unit.Report, error) {
	for began := now(); ; {
		waited, cancel := context.WithTimeout(ctx, killWait)
		rep, err := j.Wait(waited, FactSettled)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return rep, err
		}
		u, ok := j.held.(*service)
		if !ok || !u.over(j.last) || !u.busy() || now().Sub(began) > wordWait {
			return j.unproven(ctx, rep) // the bound is not an error: the report says what is left
		}
	}
}

// unproven is the end of a stop that has no proof. Where its time cut the last look
// off, which leaves what the manager knows unsaid, it looks once more.
func (j *Job) unproven(ctx context.Context, rep unit.Report) (unit.Report, error) {
	if _, ok := j.held.(*service); ok && !j.last.o.Unit.Read {
		looked, cancel := context.WithTimeout(ctx, j.patience(lookWait))
		lk := j.observe(looked, dbusclient.DepthVerdict)
		cancel()
		if lk.v.Confirmed {
			return j.settle(ctx, lk)
		}
		rep = j.report(lk)
	}
	j.keepExit(j.last)
	return rep, nil
}
