package launch

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/unit"
)

// Await is Wait for the process that started the job. What no manager does it
// does itself: it holds the timeout, ends what outlives the main process, and
// ends the job with its owner.
func (j *Job) Await(ctx context.Context, fact Fact) (unit.Report, error) {
	switch b := j.held.(type) {
	case *service:
		if b.clockStops() {
			return j.timed(ctx, fact)
		}
	case *kept:
		if b.reaper != nil {
			return b.attend(ctx, fact)
		}
	}
	return j.Wait(ctx, fact)
}

// timed waits no longer than the job's timeout, and then ends it.
func (j *Job) timed(ctx context.Context, fact Fact) (unit.Report, error) {
	if j.rec().Timeout == 0 || j.rec().StartedAt == nil {
		return j.Wait(ctx, fact)
	}
	waited, cancel := context.WithDeadline(ctx, due(*j.rec().StartedAt, j.rec().Timeout))
	defer cancel()
	if k, ok := j.held.(*kept); ok && k.reaper != nil {
		// What is to be ended now is not looked at first: that of a fork bomb's
		// processes can take seconds.
		select {
		case <-k.reaper.Exited():
		case <-waited.Done():
			if ctx.Err() == nil {
				return j.stop(ctx, j.rec().Grace, byTimeout)
			}
		}
	}
	rep, err := j.Wait(waited, fact)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return j.stop(ctx, j.rec().Grace, byTimeout)
	}
	return rep, err
}

// due is when a time that began is up; never, for one that is too long to say.
func due(began time.Time, d time.Duration) time.Time {
	if at := began.Add(d); at.After(began) {
		return at
	}
	return began.AddDate(100, 0, 0)
}

// attend waits for the main process and then does with what is left as the
// job's policy says.
func (k *kept) attend(ctx context.Context, fact Fact) (unit.Report, error) {
	if k.capture == nil {
		return k.follow(ctx, fact)
	}
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	exceeded := k.capture.Exceeded() // it stays open where the job may go on
	go func() {
		select {
		case <-exceeded:
			cancel()
		case <-within.Done():
		}
	}()
	rep, err := k.follow(within, fact)
	select {
	case <-exceeded:
	default:
		return rep, err
	}
	if err == nil || ctx.Err() != nil {
		return rep, err
	}
	return k.j.stop(ctx, k.j.rec().Grace, byOutput)
}

func (k *kept) follow(ctx context.Context, fact Fact) (unit.Report, error) {
	j := k.j
	if j.rec().Leftovers == unit.LeftoversWait {
		return j.timed(ctx, fact)
	}
	rep, err := j.timed(ctx, FactExit)
	if err != nil || j.rec().Leftovers == unit.LeftoversKeep || rep.Confirmed {
		return rep, err
	}
	// What ends with the main process needs a moment to be gone.
	waited, cancel := context.WithTimeout(ctx, drain)
	rep, err = j.Wait(waited, FactSettled)
	cancel()
	if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		return rep, err
	}
	if rep, err := k.others(ctx); err != nil || rep.Confirmed {
		return rep, err
	}
	return j.stop(ctx, j.rec().Grace, byLeftovers)
}

// others waits for another process that ends the job at this moment, as long as
// that can take: one that was killed meanwhile ends nothing any more.
func (k *kept) others(ctx context.Context) (unit.Report, error) {
	rec, err := k.j.entry.Record()
	if err != nil || rec.Stop.RequestedAt == nil {
		return unit.Report{}, err
	}
	last := due(*rec.Stop.RequestedAt, rec.Grace)
	if rec.KillDue != nil && rec.KillDue.After(last) {
		last = *rec.KillDue
	}
	waited, cancel := context.WithDeadline(ctx, last.Add(killWait))
	defer cancel()
	rep, err := k.j.Wait(waited, FactSettled)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = nil
	}
	return rep, err
}

// drain is how long processes that end with the main one are given before
// they are told to.
const drain = 20 * time.Millisecond

// Keep lets what is left of a job of lifetime call outlive the call.
func (j *Job) Keep() error { return j.held.keep() }

// Detach lets a job of lifetime call go on without the call, with the same
// name, record and deadline. A job that has ended by then, or whose main
// process has, is not detached: its end is what counts.
func (j *Job) Detach(ctx context.Context) (rep unit.Report, detached bool, err error) {
	rep, err = j.Look(ctx)
	if err != nil || rep.Exit.Known || rep.State != unit.StateRunning {
		return rep, false, err
	}
	if err := j.outlive(); err != nil {
		return rep, false, err
	}
	rep.Lifetime = unit.LifetimeDetached
	return rep, true, nil
}

// outlive lets the job go on without its call, and has written that down before:
// who finds it knows then that nobody holds it. A record does not say so of one
// that cannot go on.
func (j *Job) outlive() error {
	before := j.rec().Lifetime
	lives := func(l unit.Lifetime) error { return j.update(func(rec *unit.Record) { rec.Lifetime = l }) }
	if err := lives(unit.LifetimeDetached); err != nil {
		return err
	}
	if s, ok := j.held.(*service); ok {
		if err := s.keep(); err != nil {
			return errors.Join(err, lives(before))
		}
	}
	return nil
}
