package launch

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

// Job is a job that this process has at hand. Close it. It is for one goroutine
// at a time, but for Forward and SeekLeft, which can be called while another waits.
type Job struct {
	l     *Launcher
	entry *store.Entry
	// record is what is known to be on record. Forward reads it while another
	// goroutine that waits may put a newer one in its place.
	record atomic.Pointer[unit.Record]
	// held is nil for a job that is sealed, or not of this host, boot or user.
	held backend
	// join is true for a job that another start had begun.
	join bool
	// weak says that weak evidence is to confirm an end.
	weak bool
	last look
	// unsaved is why the record of a started job could not be completed.
	unsaved error
	// seek says that what left the unit is searched for.
	seek atomic.Bool
	// urged holds at most one word that somebody wants the job to end.
	urged chan struct{}
	// sought is when a wait last tried in vain to reach a manager elsewhere.
	sought time.Time
	// tell is called for facts; seenFacts says which of exit and tree were
	// seen.
	tell      func(unit.Report)
	seenFacts [2]bool
}

func newJob(l *Launcher, rec *unit.Record, entry *store.Entry) *Job {
	j := &Job{l: l, entry: entry, urged: make(chan struct{}, 1)}
	j.record.Store(rec)
	return j
}

func (j *Job) rec() *unit.Record { return j.record.Load() }

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

// Open finds a job by its name. A manager that cannot be reached is no error,
// and none that does not answer at once: the job's reports say so. The errors are *unit.NotFoundError,
// *store.CorruptError and *store.DirError.
func (l *Launcher) Open(ctx context.Context, name string) (*Job, error) {
	entry, rec, err := l.store.Load(name)
	if err != nil {
		return nil, err
	}
	j := newJob(l, rec, entry)
	if rec.Sealed != nil || j.identity().State != verify.IdentitySame {
		return j, nil
	}
	j.hold(ctx)
	return j, nil
}

// hold takes what holds the job in hand.
func (j *Job) hold(ctx context.Context) {
	if j.rec().Identity.Isolation == verify.IsolationService {
		opened, cancel := context.WithTimeout(ctx, openWait)
		defer cancel()
		j.held = j.l.openService(opened, j)
		return
	}
	opened, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	j.held = j.l.openKept(opened, j)
}

// Names lists the jobs on record, sorted.
func (l *Launcher) Names() ([]string, error) { return l.store.Names() }

// Close lets go of the job. One of lifetime call ends with it.
func (j *Job) Close() {
	if j.held != nil {
		j.held.close()
	}
	j.entry.Close()
}

// Name is the job's name.
func (j *Job) Name() string { return j.rec().Name }

// Joined reports whether Start found the job of its key running.
func (j *Job) Joined() bool { return j.join }

// Unsaved is a *UnsavedError where the job was started and its record could not
// be completed; else nil.
func (j *Job) Unsaved() error { return j.unsaved }

// UnsavedError says that a job runs whose record could not be completed. It is
// found by what was written down before its start.
type UnsavedError struct {
	Name string
	Err  error
}

func (e *UnsavedError) Error() string {
	return fmt.Sprintf("cannot write down that job %s runs: %v", e.Name, e.Err)
}

func (e *UnsavedError) Unwrap() error { return e.Err }

// Hint proposes the way out.
func (e *UnsavedError) Hint() []string {
	return []string{"it goes on, and is found by its name; its exit may be lost unless there is room for it by then"}
}

// OpenDir opens the job's directory, where its output is (package capture). The
// caller closes it. The error is a *store.DirError.
func (j *Job) OpenDir() (*os.File, error) { return j.entry.OpenDir() }

// Record is the job's record as this process last saw it; not to be changed.
func (j *Job) Record() *unit.Record { return j.rec() }

// identity compares the record with where we are.
func (j *Job) identity() verify.Identity {
	id, h := j.rec().Identity, j.l.host
	switch {
	case id.Host != h.machine:
		return verify.Identity{State: verify.IdentityForeign, Detail: fmt.Sprintf("the record is of host %s, this is %s", id.Host, h.machine)}
	case id.UID != j.l.cfg.UID:
		return verify.Identity{State: verify.IdentityForeign, Detail: fmt.Sprintf("the record is of uid %d, this is %d", id.UID, j.l.cfg.UID)}
	case id.Far != nil:
		return j.farIdentity()
	case id.Boot != h.boot:
		return verify.Identity{State: verify.IdentityOtherBoot, Detail: fmt.Sprintf("recorded %s, now %s", id.Boot, h.boot)}
	}
	return verify.Identity{State: verify.IdentitySame}
}

// Foreign says why the job is not one of this host and user, so that nothing
// of it can be seen or acted on from here; empty when it is.
func (j *Job) Foreign() string {
	if id := j.identity(); id.State == verify.IdentityForeign {
		return id.Detail
	}
	return ""
}

// hierarchy is that of the launcher, for a job of this machine; nil for another.
func (j *Job) hierarchy() *cgroup.Hierarchy {
	if j.rec().Identity.Far != nil {
		return nil
	}
	return j.l.hierarchy()
}

// legacyHierarchy is hierarchy where there is none of version 2.
func (j *Job) legacyHierarchy() *cgroup.Legacy {
	if j.rec().Identity.Far != nil {
		return nil
	}
	return j.l.legacyHierarchy()
}

// group is the job's recorded cgroup. It is asked for only where there is a
// hierarchy.
func (j *Job) group() *cgroup.Group {
	return j.hierarchy().Recorded(j.rec().Identity.Cgroup, j.rec().Identity.CgroupInode)
}

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

// removeLeft removes the files that the unit needed until its end, and those
// that a launcher which was killed had handed over. Their names are of our own
// record, in a directory that is ours alone.
func (j *Job) removeLeft() { removeFiles(j.rec().Left) }

func removeFiles(files []string) {
	for _, f := range files {
		os.Remove(f)
	}
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
