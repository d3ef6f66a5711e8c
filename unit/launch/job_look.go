package launch

import (
	"context"
	"slices"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// look is one look at a job.
type look struct {
	o       verify.Observation
	v       verify.Verdict
	reading dbusclient.Reading
	usage   unit.Usage
	// left are processes that were seen to have left the unit.
	left []verify.Member
	// absent is true when the manager is known not to be there, rather than
	// slow to answer.
	absent bool
	// silenced is true where the output was captured by a keeper that is gone.
	silenced bool
}

// over is true for a job of which nothing is left and whose exit will never be
// known: there is nothing to wait for, to end or to prove any more.
func (lk *look) over() bool { return lk.v.Lost && lk.v.Tree.Empty }

// observe looks at the job once, at everything there is to look at.
func (j *Job) observe(ctx context.Context, depth dbusclient.Depth) look {
	id := j.rec().Identity
	lk := look{o: verify.Observation{
		Name: j.rec().Name, Isolation: id.Isolation, InvocationID: id.InvocationID,
		At: now(), Identity: j.identity(), AcceptWeak: j.weak,
	}}
	lk.o.Unit.TasksCurrent = verify.TasksUnset
	if j.held != nil {
		j.held.observe(ctx, depth, &lk)
	} else {
		j.recorded(&lk.o)
	}
	lk.v = verify.Judge(lk.o)
	j.last = lk
	j.telling(lk)
	return lk
}

// Look looks once and returns the report; one that is confirmed is sealed. A
// manager that does not answer within a second is not waited for, nor asked by
// the looks at other jobs that follow.
func (j *Job) Look(ctx context.Context) (unit.Report, error) {
	return j.look(ctx, lookWait)
}

// look is Look for who waits so long for a manager.
func (j *Job) look(ctx context.Context, wait time.Duration) (unit.Report, error) {
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil
	}
	looked, at, tried := ctx, seatOf(&j.rec().Identity), false
	if managed(j.rec().Identity.Isolation) {
		if wait <= lookWait && j.l.silent(at) {
			wait, tried = verify.QueryTimeout, true
		} else {
			wait = j.patience(wait)
		}
		var cancel context.CancelFunc
		looked, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	if j.held != nil && (!tried || !j.outOfReach()) {
		j.held.reach(looked)
	}
	if err := j.adopt(looked); err != nil {
		return unit.Report{}, err
	}
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil
	}
	lk := j.observe(looked, dbusclient.DepthAll)
	if looked.Err() != nil && ctx.Err() == nil || j.outOfReach() {
		j.l.noteSilence(at)
	}
	return j.settle(ctx, lk)
}

// Verify looks again, within the bounds of verify.Recheck. weak lets weak
// evidence confirm an end (verify.GradeWeak).
func (j *Job) Verify(ctx context.Context, weak bool) (unit.Report, error) {
	j.weak = weak
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil
	}
	if j.rec().Identity.Far != nil {
		return j.look(ctx, actWait) // the bounds are those of this machine
	}
	adopted, cancel := context.WithTimeout(ctx, verify.QueryTimeout)
	defer cancel()
	if err := j.adopt(adopted); err != nil {
		return unit.Report{}, err
	}
	if j.rec().Sealed != nil {
		return *j.rec().Sealed, nil
	}
	var lk look
	verify.Recheck(ctx, wallClock{}, func(ctx context.Context) verify.Observation {
		if j.held != nil {
			j.held.reach(ctx)
		}
		lk = j.observe(ctx, dbusclient.DepthAll)
		return lk.o
	})
	return j.settle(ctx, lk)
}

func (j *Job) adopt(ctx context.Context) error {
	if j.held == nil {
		return nil
	}
	return j.held.adopt(ctx)
}

// settle makes the report of a look, and seals it when it is confirmed: the
// evidence is gone once the unit is unloaded.
func (j *Job) settle(ctx context.Context, lk look) (unit.Report, error) {
	if lk.v.Confirmed {
		if k, ok := j.held.(*kept); ok {
			k.askWhy(ctx, &lk)
		}
		if lk.o.Recorded == nil && j.rec().Lifetime == unit.LifetimeOwner {
			// The unit was not empty before its recorder had written, which
			// may have been after this look for it.
			j.recorded(&lk.o)
		}
		j.noteSteps(lk)
	}
	lk.left = j.leftUnit()
	rep := j.report(lk)
	if lk.over() {
		j.removeLeft() // nobody will take it any more
	}
	if !lk.v.Confirmed {
		return rep, nil
	}
	if j.held != nil {
		if err := j.held.release(ctx, lk); err != nil {
			return rep, err
		}
		if j.rec().Output == unit.OutputCapture {
			j.tellStreams(&rep, lk.silenced) // its last was written down meanwhile
		}
	}
	durable := j.rec().Lifetime != unit.LifetimeCall
	rec, err := j.entry.Update(durable, func(rec *unit.Record) {
		if rec.Sealed != nil {
			return
		}
		_, kept := j.held.(*kept)
		if kept && rec.Stop.By != nil || tookPart(rec.Stop, j.rec().Stop) {
			// Another process ended the job, or helped to, while this one
			// watched.
			j.rec().Stop, j.rec().KillDue = rec.Stop, rec.KillDue
			j.noteSteps(lk)
			rep = j.report(lk)
		}
		rec.Identity, rec.StartedAt, rec.Limits, rec.Stop = j.rec().Identity, j.rec().StartedAt, j.rec().Limits, j.rec().Stop
		rep.Lifetime = rec.Lifetime // its keeper may have been started with another
		rec.Sealed = &rep
	})
	if err != nil {
		return rep, err
	}
	j.record.Store(rec)
	j.removeLeft()
	return *rec.Sealed, nil
}

// tookPart is true when a job's record says of more that was done to end it than who
// watched it knows of.
func tookPart(recorded, known unit.Stop) bool {
	return recorded.RequestedAt != nil && known.RequestedAt == nil || recorded.By != nil && known.By == nil ||
		slices.ContainsFunc(recorded.Steps, func(s unit.Step) bool {
			return !slices.ContainsFunc(known.Steps, func(k unit.Step) bool { return k.Action == s.Action && k.At.Equal(s.At) })
		})
}

func (j *Job) report(lk look) unit.Report {
	rep := j.rec().Report(lk.o, lk.v)
	rep.Paused = rep.State == unit.StateRunning && j.paused(lk)
	rep.Usage = lk.usage
	rep.LeftUnit = append(rep.LeftUnit, lk.left...)
	switch {
	case j.rec().Output == unit.OutputCapture:
		j.tellStreams(&rep, lk.silenced)
	case rep.Streams.State == "held" && j.released(rep.Tree.Members):
		rep.Streams.State = "closed"
	}
	return rep
}
