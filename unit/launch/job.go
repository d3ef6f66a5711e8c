package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

// Job is a job that this process has at hand. Close it. It is for one
// goroutine at a time, but for Signal.
type Job struct {
	l     *Launcher
	rec   *unit.Record
	entry *store.Entry
	// client and unit are nil for a sealed job, and while the manager cannot
	// be reached; unreached then says why.
	client    *dbusclient.Client
	unit      *dbusclient.Unit
	unreached string
	guard     *keeper.Guard
	watch     *cgroup.Watch
	last      look
	// started is true once this process has done all of the job's start.
	started bool
	// fresh is true from the start of the job to the first wait for it.
	fresh bool
}

// look is one look at a job.
type look struct {
	o       verify.Observation
	v       verify.Verdict
	reading dbusclient.Reading
}

// Open finds a job by its name. A manager that cannot be reached is no error:
// the job's reports say so. The errors are *unit.NotFoundError,
// *store.CorruptError and *store.DirError.
func (l *Launcher) Open(ctx context.Context, name string) (*Job, error) {
	entry, rec, err := l.store.Load(name)
	if err != nil {
		return nil, err
	}
	j := &Job{l: l, rec: rec, entry: entry}
	if rec.Sealed != nil || j.identity().State != verify.IdentitySame {
		return j, nil
	}
	j.client, err = l.client(ctx, rec.Identity.Manager)
	if err == nil {
		j.unit, err = j.client.Open(ctx, rec.Identity.Unit)
	}
	if err != nil {
		j.unreached = err.Error()
	}
	return j, nil
}

// Names lists the jobs on record, sorted.
func (l *Launcher) Names() ([]string, error) { return l.store.Names() }

// Close lets go of the job. One of lifetime call ends with it.
func (j *Job) Close() {
	if j.watch != nil {
		j.watch.Close()
	}
	if j.unit != nil {
		j.unit.Close()
	}
	if j.guard != nil {
		j.guard.Close()
	}
	j.entry.Close()
}

// Name is the job's name.
func (j *Job) Name() string { return j.rec.Name }

// Record is the job's record as this process last saw it; not to be changed.
func (j *Job) Record() *unit.Record { return j.rec }

// identity compares the record with where we are.
func (j *Job) identity() verify.Identity {
	id, h := j.rec.Identity, j.l.host
	switch {
	case id.Host != h.machine:
		return verify.Identity{State: verify.IdentityForeign, Detail: fmt.Sprintf("the record is of host %s, this is %s", id.Host, h.machine)}
	case id.UID != j.l.cfg.UID:
		return verify.Identity{State: verify.IdentityForeign, Detail: fmt.Sprintf("the record is of uid %d, this is %d", id.UID, j.l.cfg.UID)}
	case id.Boot != h.boot:
		return verify.Identity{State: verify.IdentityOtherBoot, Detail: fmt.Sprintf("recorded %s, now %s", id.Boot, h.boot)}
	}
	return verify.Identity{State: verify.IdentitySame}
}

// abandoned is true when the record will not be completed by its launcher.
func (j *Job) abandoned() bool {
	if j.rec.Identity.InvocationID != "" {
		return false
	}
	if j.rec.Launcher == j.l.self {
		return j.started // by us, who will not learn more
	}
	started, err := keeper.StartTime(j.rec.Launcher.PID)
	return errors.Is(err, fs.ErrNotExist) || err == nil && started != j.rec.Launcher.StartTime
}

// observe looks at the job once, at everything there is to look at.
func (j *Job) observe(ctx context.Context, depth dbusclient.Depth) look {
	id := j.rec.Identity
	lk := look{o: verify.Observation{
		Name: j.rec.Name, Isolation: id.Isolation, InvocationID: id.InvocationID,
		At: now(), Identity: j.identity(), Abandoned: j.abandoned(),
	}}
	o := &lk.o
	o.Unit.TasksCurrent = verify.TasksUnset
	o.Unit.Err = j.unreached
	if o.Identity.State == verify.IdentitySame {
		// The unit first, then the recorder, then the cgroup: a recorder or
		// a member that an earlier answer missed is still there to be seen.
		if j.unit != nil {
			lk.reading = j.unit.Read(ctx, depth)
			o.Unit = lk.reading.Unit
		}
	}
	if j.rec.Recorder {
		// A record that cannot be believed is no evidence.
		o.Recorded, _ = j.entry.Recorded()
		if o.Recorded != nil && id.InvocationID == "" {
			// The unit ended before its identity could be read. Its recorder,
			// which is ours and was told of this directory by this start
			// alone, knows it.
			j.rec.Identity.InvocationID = o.Recorded.InvocationID
			o.InvocationID = o.Recorded.InvocationID
		}
	}
	if h := j.l.hierarchy(); h != nil && id.Cgroup != "" && o.Identity.State == verify.IdentitySame {
		o.Cgroup = h.Recorded(id.Cgroup, id.CgroupInode).Read()
	}
	lk.v = verify.Judge(*o)
	j.last = lk
	return lk
}

// Look looks once and returns the report; one that is confirmed is sealed.
func (j *Job) Look(ctx context.Context) (unit.Report, error) {
	if j.rec.Sealed != nil {
		return *j.rec.Sealed, nil
	}
	if err := j.adopt(ctx); err != nil {
		return unit.Report{}, err
	}
	return j.settle(ctx, j.observe(ctx, dbusclient.DepthAll))
}

// Verify looks again, within the bounds of verify.Recheck.
func (j *Job) Verify(ctx context.Context) (unit.Report, error) {
	if j.rec.Sealed != nil {
		return *j.rec.Sealed, nil
	}
	if err := j.adopt(ctx); err != nil {
		return unit.Report{}, err
	}
	var lk look
	verify.Recheck(ctx, wallClock{}, func(ctx context.Context) verify.Observation {
		lk = j.observe(ctx, dbusclient.DepthAll)
		return lk.o
	})
	return j.settle(ctx, lk)
}

// adopt completes a record whose start was never answered: the unit is ours
// when it carries the nonce.
func (j *Job) adopt(ctx context.Context) error {
	if j.rec.Identity.InvocationID != "" || j.unit == nil {
		return nil
	}
	ours, err := j.unit.Carries(ctx, j.rec.Identity.Nonce)
	if err != nil {
		return err
	}
	if !ours {
		return nil
	}
	return j.identify(ctx, &unit.Spec{})
}

// settle makes the report of a look, and seals it when it is confirmed: the
// evidence is gone once the unit is unloaded.
func (j *Job) settle(ctx context.Context, lk look) (unit.Report, error) {
	j.noteSteps(lk)
	rep := j.report(lk)
	if !lk.v.Confirmed {
		return rep, nil
	}
	if lk.o.Unit.Read && lk.reading.ActiveState == "active" && lk.reading.InvocationID == j.rec.Identity.InvocationID {
		// RemainAfterExit= kept an empty unit; it has told what it knew.
		if err := j.unit.Stop(ctx); err != nil {
			return rep, err
		}
	}
	if j.guard != nil {
		j.guard.Release() // it ends while the report is written
	}
	durable := j.rec.Lifetime != unit.LifetimeCall
	rec, err := j.entry.Update(durable, func(rec *unit.Record) {
		if rec.Sealed == nil {
			rec.Identity, rec.StartedAt, rec.Limits = j.rec.Identity, j.rec.StartedAt, j.rec.Limits
			rec.Stop = j.rec.Stop
			rec.Sealed = &rep
		}
	})
	if err != nil {
		return rep, err
	}
	j.rec = rec
	j.removeLeft()
	return *rec.Sealed, nil
}

// removeLeft removes the files that the unit needed until its end. Their
// names are of our own record, in a directory that is ours alone.
func (j *Job) removeLeft() {
	for _, f := range j.rec.Left {
		os.Remove(f)
	}
}

func (j *Job) report(lk look) unit.Report {
	rep := j.rec.Report(lk.o, lk.v)
	rep.Usage.CPUNanoseconds, rep.Usage.MemoryPeak = lk.reading.CPUUsage, lk.reading.MemoryPeak
	return rep
}
