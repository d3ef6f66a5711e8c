package launch

import (
	"context"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Fact is what a wait is for.
type Fact string

const (
	// FactExit is the end of the main process.
	FactExit Fact = "exit"
	// FactTree is an empty unit.
	FactTree Fact = "tree"
	// FactSettled is both, sealed.
	FactSettled Fact = "settled"
)

// tick bounds how long a wait can miss what nothing told it of.
const tick = time.Second

// absentWait is how long a wait for an exit goes on when nothing of the job is
// left and no manager is there that could tell it. One that comes back within
// it has mostly lost the exit too, and then says so at once.
const absentWait = 10 * time.Second

func now() time.Time { return time.Now() }

// wallClock is the real clock.
type wallClock struct{}

// Now is the present.
func (wallClock) Now() time.Time { return time.Now() }

// Sleep waits for d or for the end of ctx.
func (wallClock) Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Wait blocks until the fact is established, or until it is certain that it
// never will be (the report's Missing says why), or until ctx is done, whose
// error it then returns with the latest report. When all processes are gone and
// no manager is there to tell the exit, it gives up after ten seconds, or at the
// next Forward; the exit is not known then.
func (j *Job) Wait(ctx context.Context, fact Fact) (unit.Report, error) {
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil
	}
	j.reach(ctx)
	if err := j.adopt(ctx); err != nil {
		return unit.Report{}, err
	}
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil
	}
	if err := j.started(ctx); err != nil {
		return j.report(j.last), err
	}
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil
	}
	var alone time.Time
	hurried := false
	timer := time.NewTicker(tick)
	defer timer.Stop()
	if k, ok := j.held.(*kept); ok && k.reaper != nil {
		// Nothing that a wait is for can come before, and it is certain to be
		// told: no need to look at anything meanwhile.
		select {
		case <-ctx.Done():
		case <-k.reaper.Exited():
			k.settling(ctx)
		}
	} else if j.held != nil && j.held.quiet() {
		changed, _ := j.held.sources(look{})
		for asleep := true; asleep; {
			select {
			case <-ctx.Done():
				asleep = false
			case <-changed:
				asleep = j.goesOn(ctx)
			case <-timer.C:
				asleep = false
			}
		}
	}
	for {
		lk := j.observe(ctx, dbusclient.DepthVerdict)
		if reached(fact, lk.v) || lk.v.Confirmed || hopeless(lk) {
			return j.settle(ctx, lk)
		}
		// Only the manager could tell the exit, and there is none any more.
		switch widowed := lk.absent && lk.v.Tree.Empty && !lk.v.Exit.Known; {
		case !widowed:
			alone, hurried = time.Time{}, false
		case alone.IsZero():
			alone = now()
		}
		if !alone.IsZero() && (hurried || now().Sub(alone) >= absentWait) {
			return j.settle(ctx, lk)
		}
		var changed, emptied <-chan struct{}
		if j.held != nil {
			changed, emptied = j.held.sources(lk)
		}
		for asleep := true; asleep; {
			asleep = false
			select {
			case <-ctx.Done():
				return j.report(lk), ctx.Err()
			case <-changed:
				asleep = !lk.v.Exit.Known && j.goesOn(ctx)
			case <-j.urged:
				hurried = true
			case _, open := <-emptied:
				if !open {
					j.held.unwatch()
				}
			case <-timer.C:
				if u, ok := j.held.(*service); ok && !lk.v.Exit.Known && u.undisturbed() {
					asleep = true
					continue
				}
				switch {
				case j.starting():
					if err := j.follow(ctx); err != nil {
						return j.report(lk), err
					}
				default:
					j.reach(ctx)
				}
				if j.rec().Sealed != nil {
					return *j.rec().Sealed, nil
				}
			}
		}
	}
}

// goesOn is true for a service of which a signal of its manager need not be looked
// at: its main process lives, so that nothing has come of whatever the manager does.
// When it stops the unit by itself, one that is paused is let go on.
func (j *Job) goesOn(ctx context.Context) bool {
	u, ok := j.held.(*service)
	if !ok || !u.lives() {
		return false
	}
	if !u.unit.GoesOn() {
		u.thaw(ctx)
	}
	return true
}

// reach tries again to reach what could not be reached, within a bound.
func (j *Job) reach(ctx context.Context) {
	far := j.rec().Identity.Far != nil
	if j.held == nil || far && now().Sub(j.sought) < farPause {
		return
	}
	reached, cancel := context.WithTimeout(ctx, j.patience(lookWait))
	defer cancel()
	j.held.reach(reached)
	if j.outOfReach() {
		j.sought = now()
	}
}

func reached(fact Fact, v verify.Verdict) bool {
	switch fact {
	case FactExit:
		return v.Exit.Known
	case FactTree:
		return v.Tree.Empty
	}
	return v.Confirmed
}

// hopeless is true when waiting longer can prove nothing more: the exit is
// lost, or nobody is there to prove more of an owned process group, and no
// process is seen to wait for.
func hopeless(lk look) bool {
	alone := lk.o.Isolation == verify.IsolationGroup && lk.o.KeeperGone
	return (lk.v.Lost || alone) && (lk.v.Tree.Empty || !lk.o.Survivor())
}
