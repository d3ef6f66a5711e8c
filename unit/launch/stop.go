package launch

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
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
	rep, err := j.Look(ctx)
	if err != nil || rep.State == unit.StateSettled {
		return rep, err
	}
	if err := j.actable("stop"); err != nil {
		var ended *unit.EndedError
		if !errors.As(err, &ended) || j.last.o.Cgroup.State != verify.CgroupPopulated {
			return rep, err
		}
		// The manager lost the unit, but the cgroup is there and the recorded
		// one: what is in it is the job's.
		if err := j.begin(by); err != nil {
			return rep, err
		}
		return j.kill(ctx, nil)
	}
	if err := j.begin(by); err != nil {
		return rep, err
	}
	if err := j.terminate(ctx, grace); err != nil {
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
	return j.kill(ctx, j.unit)
}

// actable refuses to act on what is not the recorded job.
func (j *Job) actable(op string) error {
	if j.rec.Sealed != nil {
		return &unit.EndedError{Op: op, Name: j.rec.Name}
	}
	o := j.last.o
	switch {
	case o.Identity.State != verify.IdentitySame:
		return &unit.IdentityError{Name: j.rec.Name, Detail: o.Identity.Detail}
	case o.Cgroup.State == verify.CgroupReplaced:
		return &unit.IdentityError{Name: j.rec.Name, Detail: "another cgroup stands at " + o.Cgroup.Path}
	case j.unit == nil:
		return errors.New("cannot " + op + " job " + j.rec.Name + ": " + j.unreached)
	case !o.Unit.Read:
		return errors.New("cannot " + op + " job " + j.rec.Name + ": " + o.Unit.Err)
	case o.Unit.LoadState != "loaded", o.Unit.InvocationID == "":
		return &unit.EndedError{Op: op, Name: j.rec.Name}
	case o.Unit.InvocationID != j.rec.Identity.InvocationID:
		return &unit.IdentityError{Name: j.rec.Name, Detail: "InvocationID is " + o.Unit.InvocationID + ", recorded was " + j.rec.Identity.InvocationID}
	}
	return nil
}

// begin records that an end was asked for, before anything is done.
func (j *Job) begin(by string) error {
	at := now()
	return j.update(func(rec *unit.Record) {
		if rec.Stop.RequestedAt == nil {
			rec.Stop.RequestedAt, rec.Stop.By = &at, &by
		}
	})
}

func (j *Job) step(action, detail string) error {
	at := now()
	return j.update(func(rec *unit.Record) {
		rec.Stop.Steps = append(rec.Stop.Steps, unit.Step{At: at, Action: action, Detail: detail})
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

// terminate sends the job's kill signal to all of it. StopUnit also wakes
// what is stopped, and starts the manager's own clock for SIGKILL, which runs
// on when we are dead; it is TimeoutStopSec=, so a longer grace has to do
// without as long as it can.
func (j *Job) terminate(ctx context.Context, grace time.Duration) error {
	signal := j.rec.KillSignal
	if signal == 0 {
		signal = int(unix.SIGTERM)
	}
	name := verify.SignalName(signal)
	if grace <= j.rec.Grace {
		if err := j.unit.Stop(ctx); err != nil {
			return err
		}
		return j.step(name, "StopUnit")
	}
	err := j.unit.Kill(ctx, dbusclient.WhoAll, signal)
	if err == nil {
		err = j.unit.Kill(ctx, dbusclient.WhoAll, int(unix.SIGCONT))
	}
	var ended *unit.EndedError
	if err != nil && !errors.As(err, &ended) {
		return err
	}
	return j.step(name, "KillUnit all")
}

// kill ends every member of the unit, whatever its user: by cgroup.kill,
// which the manager writes (systemd 250) and so do we. u is nil when the
// manager's unit of that name is not the job's.
func (j *Job) kill(ctx context.Context, u *dbusclient.Unit) (unit.Report, error) {
	detail := "cgroup.kill"
	if u != nil {
		// The order matters: a unit that is to stop starts nothing any more.
		if err := u.Stop(ctx); err != nil {
			detail = err.Error()
		}
		if err := u.Kill(ctx, dbusclient.WhoAll, sigKill); err != nil {
			var ended *unit.EndedError
			if !errors.As(err, &ended) {
				detail = err.Error()
			}
		}
	}
	if id := j.rec.Identity; id.CgroupInode != 0 {
		err := j.l.hierarchy().Recorded(id.Cgroup, id.CgroupInode).Kill()
		switch {
		case err == nil:
		case errors.Is(err, fs.ErrNotExist):
			detail = "KillUnit all" // gone, or a kernel before 5.14
		default:
			detail = err.Error()
		}
	}
	if err := j.step("KILL", detail); err != nil {
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
func (j *Job) Signal(ctx context.Context, who dbusclient.Who, signal int) error {
	if j.rec.Sealed != nil {
		return &unit.EndedError{Op: "signal", Name: j.rec.Name}
	}
	j.observe(ctx, dbusclient.DepthVerdict)
	if err := j.actable("signal"); err != nil {
		return err
	}
	if err := j.unit.Kill(ctx, who, signal); err != nil || signal != sigKill {
		return err
	}
	// A kernel may also kill what is put into a cgroup after cgroup.kill: then
	// no recorder runs, and whoever holds the unit is its only witness.
	waited, cancel := context.WithTimeout(ctx, witnessWait)
	defer cancel()
	_, err := j.Wait(waited, FactSettled)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// Forward sends a signal to a job that this process started and holds: its
// identity cannot have changed. While the connection is down it tries again,
// for a while: a signal that comes twice does less harm than one that is lost.
func (j *Job) Forward(ctx context.Context, who dbusclient.Who, signal int) error {
	tried, cancel := context.WithTimeout(ctx, forwardWait)
	defer cancel()
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		err := j.unit.Kill(tried, who, signal)
		var unknown *unit.UnknownOutcomeError
		if !errors.As(err, &unknown) {
			return err
		}
		select {
		case <-tried.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// noteSteps records the steps that the manager took by itself: for a timeout,
// or for what the main process left behind.
func (j *Job) noteSteps(lk look) {
	if j.unit == nil || !lk.v.Confirmed {
		return
	}
	stop := &j.rec.Stop
	if stop.RequestedAt == nil {
		trail := j.unit.Trail()
		if by, began := j.managerStop(lk); slices.Contains(trail, "stop-sigterm") || slices.Contains(trail, "final-sigterm") || by == byTimeout {
			stop.By = &by
			stop.Steps = []unit.Step{{At: began, Action: verify.SignalName(j.signal()), Detail: "by the manager"}}
			// Before systemd 252 the killing states pass too fast to be
			// signalled; the clock tells of them.
			due := began.Add(j.rec.Grace)
			if slices.Contains(trail, "stop-sigkill") || slices.Contains(trail, "final-sigkill") || lk.o.Unit.InactiveEnterAt.After(due) {
				stop.Steps = append(stop.Steps, unit.Step{At: due, Action: "KILL", Detail: "by the manager"})
			}
		}
	}
	if n := len(stop.Steps); n > 0 {
		stop.Steps[n-1].Sufficed = lk.v.Tree.Empty
	}
}

// managerStop says why the manager stopped the unit, and since when.
func (j *Job) managerStop(lk look) (by string, began time.Time) {
	if j.rec.StartedAt != nil && j.rec.TimedOut(lk.o, lk.v) {
		return byTimeout, j.rec.StartedAt.Add(j.rec.Timeout)
	}
	return byLeftovers, lk.o.Unit.MainExitAt
}

func (j *Job) signal() int {
	if j.rec.KillSignal == 0 {
		return int(unix.SIGTERM)
	}
	return j.rec.KillSignal
}
