package launch

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// killWait is how long a stop waits for the proof after KILL. What is left
// then does not obey the kernel's KILL: it sleeps uninterruptibly.
const killWait = 5 * time.Second

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
)

// Stop ends the job and everything of it: the kill signal to all, the grace,
// SIGKILL to the whole unit, proof. It returns at the proof, or when a bounded
// wait after SIGKILL has none; the report then says what is left. A job that
// had already ended is not touched, and its report says so: Stop.RequestedAt
// is nil.
//
// The error is a *unit.IdentityError when what is there is not the job, or
// that of a manager which refuses; then nothing is known to have changed.
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
	rep, err := j.Look(ctx)
	if err != nil || rep.State == unit.StateSettled {
		return rep, err
	}
	if err := j.actable("stop"); err != nil {
		var ended *unit.EndedError
		switch {
		case !errors.As(err, &ended):
			return rep, err
		case j.last.o.Cgroup.State != verify.CgroupPopulated && !j.last.v.Lost && !j.last.o.KeeperGone:
			// The tree is empty, and who saw the main process end is about to
			// say so.
			return j.told(ctx, rep, err)
		case j.last.o.Cgroup.State != verify.CgroupPopulated:
			return rep, err
		}
		// The manager lost the unit, but the cgroup is there and the recorded
		// one: what is in it is the job's.
		if err := j.begin(by); err != nil {
			return rep, err
		}
		return j.kill(ctx)
	}
	if err := j.begin(by); err != nil {
		return rep, err
	}
	if j.rec.Sealed != nil {
		return *j.rec.Sealed, nil // it ended meanwhile, by itself
	}
	detail, err := j.held.terminate(ctx, j.killSignal(), grace)
	if err == nil {
		err = j.step(verify.SignalName(j.killSignal()), detail)
	}
	if err != nil {
		return rep, err
	}
	waited, cancel := context.WithTimeout(ctx, grace)
	rep, err = j.Wait(waited, FactSettled)
	cancel()
	switch {
	case err == nil && rep.State == unit.StateSettled:
		return rep, nil
	case ctx.Err() != nil:
		return rep, ctx.Err()
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		return rep, err
	}
	return j.kill(ctx)
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
	if j.rec.Sealed != nil {
		return &unit.EndedError{Op: op, Name: j.rec.Name}
	}
	if state := j.last.o.Identity; state.State != verify.IdentitySame {
		return &unit.IdentityError{Name: j.rec.Name, Detail: state.Detail}
	}
	return j.held.actable(op, j.last)
}

// begin records who wants the end, before anything is done. What the job's own
// terms demand was asked for with the job.
func (j *Job) begin(by string) error {
	at := now()
	return j.update(func(rec *unit.Record) {
		if rec.Stop.RequestedAt != nil || rec.Sealed != nil {
			return
		}
		rec.Stop.By = &by
		if by != byTimeout && by != byLeftovers {
			rec.Stop.RequestedAt = &at
		}
	})
}

func (j *Job) step(action, detail string) error {
	at := now()
	return j.update(func(rec *unit.Record) {
		rec.Stop.Steps = append(rec.Stop.Steps, unit.Step{At: at, Action: action, Detail: detail})
		if rec.Sealed != nil && rec.Sealed.Stop.RequestedAt != nil {
			// Who keeps the job saw its end before this was written.
			for i := range rec.Stop.Steps {
				rec.Stop.Steps[i].Sufficed = false
			}
			rec.Stop.Steps[len(rec.Stop.Steps)-1].Sufficed = true
			rec.Sealed.Stop = rec.Stop
		}
	})
}

func (j *Job) update(change func(*unit.Record)) error {
	rec, err := j.entry.Update(false, change)
	if err != nil {
		return err
	}
	j.rec = rec
	return nil
}

// kill ends everything that is left, and waits for the proof.
func (j *Job) kill(ctx context.Context) (unit.Report, error) {
	if err := j.step("KILL", j.held.kill(ctx, j.last)); err != nil {
		return j.report(j.last), err
	}
	waited, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	rep, err := j.Wait(waited, FactSettled)
	if err != nil && ctx.Err() == nil {
		err = nil // the bound is not an error: the report says what is left
	}
	return rep, err
}

// Signal sends a signal to the main process or to all of the job. The error
// is a *unit.EndedError when there is none, a *unit.IdentityError when what
// is there is not the job, or the manager's refusal.
func (j *Job) Signal(ctx context.Context, who unit.Who, signal int) error {
	err := j.act(ctx, "signal", func(b backend) error { return b.signal(ctx, who, signal) })
	if err != nil || signal != sigKill {
		return err
	}
	// A kernel may also kill what is put into a cgroup after cgroup.kill: then
	// no recorder runs, and whoever holds the unit is its only witness.
	waited, cancel := context.WithTimeout(ctx, witnessWait)
	defer cancel()
	_, err = j.Wait(waited, FactSettled)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// Forward sends a signal to a job that this process started and holds: its
// identity cannot have changed.
func (j *Job) Forward(ctx context.Context, who unit.Who, signal int) error {
	return j.held.forward(ctx, who, signal)
}

// noteSteps completes the record of what was done to end the job.
func (j *Job) noteSteps(lk look) {
	if j.held != nil {
		j.held.noteSteps(lk)
	}
	if n := len(j.rec.Stop.Steps); n > 0 {
		j.rec.Stop.Steps[n-1].Sufficed = lk.v.Tree.Empty
	}
}

func (j *Job) killSignal() int {
	if j.rec.KillSignal == 0 {
		return int(unix.SIGTERM)
	}
	return j.rec.KillSignal
}
