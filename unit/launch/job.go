package launch

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

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

// removeLeft removes the files that the unit needed until its end, and those
// that a launcher which was killed had handed over. Their names are of our own
// record, in a directory that is ours alone.
func (j *Job) removeLeft() { removeFiles(j.rec().Left) }

func removeFiles(files []string) {
	for _, f := range files {
		os.Remove(f)
	}
}
