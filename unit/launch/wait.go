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
// error it then returns with the latest report.
func (j *Job) Wait(ctx context.Context, fact Fact) (unit.Report, error) {
	if j.rec.Sealed != nil {
		return *j.rec.Sealed, nil
	}
	if err := j.adopt(ctx); err != nil {
		return unit.Report{}, err
	}
	timer := time.NewTicker(tick)
	defer timer.Stop()
	if j.fresh && j.unit.GoesOn() {
		// It was started just now and nothing has happened yet: there is
		// nothing to look at before something does.
		select {
		case <-ctx.Done():
		case <-j.unit.Changed():
		case <-timer.C:
		}
	}
	j.fresh = false
	for {
		depth := dbusclient.DepthVerdict
		if j.l.hierarchy() == nil {
			depth = dbusclient.DepthAll // the manager is the only witness
		}
		lk := j.observe(ctx, depth)
		if reached(fact, lk.v) || lk.v.Confirmed || hopeless(lk) {
			return j.settle(ctx, lk)
		}
		changed, emptied := j.sources(lk)
		select {
		case <-ctx.Done():
			return j.report(lk), ctx.Err()
		case <-changed:
		case _, open := <-emptied:
			if !open {
				j.watch.Close()
				j.watch = nil
			}
		case <-timer.C:
			j.reach(ctx)
		}
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
// lost, and no process is left to wait for.
func hopeless(lk look) bool {
	return lk.v.Lost && (lk.v.Tree.Empty || lk.o.Cgroup.State != verify.CgroupPopulated)
}

// sources are the channels that tell of a change. The cgroup is watched once
// the main process has ended, since the manager signals nothing more then.
func (j *Job) sources(lk look) (changed, emptied <-chan struct{}) {
	if j.unit != nil {
		changed = j.unit.Changed()
	}
	if lk.o.Cgroup.State == verify.CgroupPopulated && (lk.v.Exit.Known || lk.v.Lost) && j.watch == nil {
		id := j.rec.Identity
		if w, err := j.l.hierarchy().Recorded(id.Cgroup, id.CgroupInode).Watch(); err == nil {
			j.watch = w
			closed := make(chan struct{}, 1)
			closed <- struct{}{} // it may have emptied before the watch began
			return changed, closed
		}
	}
	if j.watch != nil {
		emptied = j.watch.C
	}
	return changed, emptied
}

// reach tries again to reach a manager that was not there.
func (j *Job) reach(ctx context.Context) {
	if j.unit != nil || j.rec.Sealed != nil {
		return
	}
	c, err := j.l.client(ctx, j.rec.Identity.Manager)
	if err != nil {
		j.unreached = err.Error()
		return
	}
	u, err := c.Open(ctx, j.rec.Identity.Unit)
	if err != nil {
		j.unreached = err.Error()
		return
	}
	j.client, j.unit, j.unreached = c, u, ""
}
