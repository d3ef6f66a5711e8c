package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// service is a job that systemd holds as a service.
type service struct {
	j *Job
	// client and unit are nil while the manager cannot be reached; unreached
	// then says why.
	client    *dbusclient.Client
	unit      *dbusclient.Unit
	unreached string
	// absent says that it is not there, rather than slow.
	absent bool
	// guard is the job's own, if it has one. shared is true for one that is
	// bound to that of all jobs, which is common at its start.
	guard  *keeper.Guard
	shared bool
	common *sharedGuard
	watch  *cgroup.Watch
	// command is the job's main process where the unit's only tends it; zero
	// where the unit's is the job's.
	command unit.Process
	// started is true once this process has done all of the job's start.
	started bool
	// fresh is true from the start of the job to the first wait for it.
	fresh bool
	// place is the cgroup that the manager has said to be the recorded unit's; empty
	// before it has.
	place string
}

// openService finds the unit of a record. A manager that cannot be reached is
// no error: what is seen will say so.
func (l *Launcher) openService(ctx context.Context, j *Job) *service {
	u := &service{j: j}
	if at := seatOf(&j.rec().Identity); l.silent(at) {
		u.unreached = (&unit.NoManagerError{Manager: at.manager, Remote: at.remote, Tried: []string{"it does not answer"}}).Error()
		return u
	}
	u.reach(ctx)
	return u
}

func (u *service) close() {
	u.unwatch()
	if u.unit != nil {
		u.unit.Close()
	}
	if u.guard != nil {
		u.guard.Close()
	}
}

// abandoned is true when the record will not be completed by its launcher.
func (u *service) abandoned() bool {
	rec := u.j.rec()
	if rec.Identity.InvocationID != "" {
		return false
	}
	if rec.Launcher == u.j.l.self {
		return u.started // by us, who will not learn more
	}
	return pidsHold(rec) && Ended(rec.Launcher)
}

func (u *service) observe(ctx context.Context, depth dbusclient.Depth, lk *look) {
	o, rec := &lk.o, u.j.rec()
	o.Abandoned = u.abandoned()
	o.Unit.Err, lk.absent = u.unreached, u.absent
	// The unit first, then the recorder, then the cgroup: a recorder or a
	// member that an earlier answer missed is still there to be seen.
	h := u.j.hierarchy()
	if depth == dbusclient.DepthVerdict && u.seenEnded(ctx, h, lk) {
		return
	}
	if h == nil || rec.Identity.CgroupInode == 0 {
		depth = dbusclient.DepthAll // only the manager knows, of the tree or of its place
	}
	if u.unit != nil {
		lk.reading = u.unit.Read(ctx, depth)
		o.Unit, lk.absent = lk.reading.Unit, lk.reading.Absent
		lk.usage.CPUNanoseconds, lk.usage.MemoryPeak = lk.reading.CPUUsage, lk.reading.MemoryPeak
	}
	u.j.recorded(o)
	u.told(lk)
	if o.Tended = rec.Tended; o.Tended {
		o.Nonce, o.KilledAll = rec.Identity.Nonce, rec.KilledAll
		if o.Kept, _ = u.j.kept(); (o.Kept == nil || !o.Kept.Exited) && !o.KilledAll && (o.Recorded != nil || o.Unit.ExecMainCode != 0) {
			// Another process may have ended it.
			if now, err := u.j.entry.Record(); err == nil {
				o.KilledAll = killedAll(now, o)
			}
		}
	}
	placed := u.placed(lk.reading)
	switch id := rec.Identity; {
	case id.Cgroup == "":
	case h != nil:
		o.Cgroup = u.readCgroup(h, placed)
		lk.addPeaks(u.j.group())
	case placed:
		if legacy := u.j.legacyHierarchy(); legacy != nil {
			o.Cgroup = legacy.Read(id.Cgroup)
		}
	}
}

// seenEnded is the look at a job whose unit came to its end while it was
// followed, and which is seen to have no process left: the manager need not be
// asked for what it has just told, which would take a tenth of a short job.
func (u *service) seenEnded(ctx context.Context, h *cgroup.Hierarchy, lk *look) bool {
	id := u.j.rec().Identity
	if h == nil || u.unit == nil || !u.unit.Ended() || u.j.rec().Recorder || id.InvocationID == "" || id.Cgroup == "" {
		return false
	}
	r, ok := u.unit.ReadEnded(ctx)
	if !ok || r.InvocationID != id.InvocationID {
		return false
	}
	switch left := u.readCgroup(h, u.placed(r)); left.State {
	case verify.CgroupGone, verify.CgroupEmpty:
		lk.o.Cgroup = left
	default:
		return false
	}
	lk.reading, lk.o.Unit = r, r.Unit
	lk.usage.CPUNanoseconds, lk.usage.MemoryPeak = r.CPUUsage, r.MemoryPeak
	return true
}

// adopt: the unit is ours when it carries the nonce. A manager that does not
// answer leaves the record as it is.
func (u *service) adopt(ctx context.Context) error {
	if u.j.rec().Identity.InvocationID != "" || u.unit == nil {
		return nil
	}
	ours, err := u.unit.Carries(ctx, u.j.rec().Identity.Nonce)
	if err == nil && ours {
		err = u.identify(ctx, &unit.Spec{})
	}
	var unknown *unit.UnknownOutcomeError
	if errors.As(err, &unknown) {
		return nil
	}
	return err
}

func (u *service) quiet() bool {
	fresh := u.fresh
	u.fresh = false
	return fresh && u.unit.GoesOn() || u.lives()
}

// sources: the cgroup is watched once the main process has ended, since the
// manager signals nothing more then.
func (u *service) sources(lk look) (changed, emptied <-chan struct{}) {
	if u.unit != nil {
		changed = u.unit.Changed()
		if lk.o.Unit.Read && lk.o.Unit.ActiveState == "deactivating" {
			u.thaw(context.Background()) // the manager's own stop: its time is up
		}
	}
	if u.watch == nil && u.j.hierarchy() != nil && lk.o.Cgroup.State == verify.CgroupPopulated && (lk.v.Exit.Known || lk.v.Lost) {
		if w, err := u.j.group().Watch(); err == nil {
			u.watch = w
			return changed, atOnce() // it may have emptied before the watch began
		}
	}
	if u.watch != nil {
		emptied = u.watch.C
	}
	return changed, emptied
}

func (u *service) unwatch() {
	if u.watch != nil {
		u.watch.Close()
		u.watch = nil
	}
}

// atOnce is a channel that has something to tell.
func atOnce() <-chan struct{} {
	c := make(chan struct{}, 1)
	c <- struct{}{}
	return c
}

func (u *service) reach(ctx context.Context) {
	if u.unit != nil {
		return
	}
	c, err := u.j.l.client(ctx, seatOf(&u.j.rec().Identity))
	if err != nil {
		u.unreached, u.absent = err.Error(), absent(err)
		return
	}
	found, err := c.Open(ctx, u.j.rec().Identity.Unit)
	if err != nil {
		u.unreached, u.absent = err.Error(), absent(err)
		return
	}
	u.client, u.unit, u.unreached, u.absent = c, found, "", false
}

func (u *service) actable(op string, lk look) error {
	o, rec := lk.o, u.j.rec()
	switch {
	case o.Cgroup.State == verify.CgroupReplaced:
		return &unit.IdentityError{Name: rec.Name, Detail: "another cgroup stands at " + o.Cgroup.Path}
	case u.unit == nil:
		return &unreachedError{op, rec.Name, u.unreached}
	case !o.Unit.Read:
		return &unreachedError{op, rec.Name, o.Unit.Err}
	case o.Unit.LoadState != "loaded", o.Unit.InvocationID == "":
		return &unit.EndedError{Op: op, Name: rec.Name}
	case o.Unit.InvocationID != rec.Identity.InvocationID:
		return &unit.IdentityError{Name: rec.Name, Detail: "InvocationID is " + o.Unit.InvocationID + ", recorded was " + rec.Identity.InvocationID}
	}
	return nil
}

func (u *service) signal(ctx context.Context, who unit.Who, signal int) error {
	if who == unit.WhoMain && u.j.rec().Tended {
		return u.j.signalMain(signal)
	}
	if who == unit.WhoAll {
		if _, done := u.j.killInstead(ctx, signal, u.client.Version()); done {
			return nil
		}
	}
	return u.unit.Kill(ctx, who, signal)
}

func (u *service) pause(ctx context.Context) error { return u.j.freezeAlone(ctx, u.unit.Freeze(ctx)) }

func (u *service) resume(ctx context.Context) error { return u.j.thawAlone(u.unit.Thaw(ctx)) }

// noteSteps: the manager acts by itself for a timeout, or for what the main
// process left behind.
func (u *service) noteSteps(lk look) {
	if u.unit == nil {
		return
	}
	trail := u.unit.Trail()
	by, began := u.managerStop(lk)
	if by != byTimeout && (leftNothing(lk.o) || !slices.Contains(trail, "stop-sigterm") && !slices.Contains(trail, "final-sigterm")) {
		return
	}
	u.j.rec().Stop.By = &by
	u.j.rec().Stop.Steps = []unit.Step{{At: began, Action: verify.SignalName(u.j.killSignal()), Detail: byManager}}
}

// leftNothing is true where who tended the job's main process went after its reaper
// had seen that no other was left: what the manager then found was the reaper, on its
// way out.
func leftNothing(o verify.Observation) bool {
	gone := o.Unit.MainExitAt
	return o.Kept != nil && o.Kept.Childless && !o.Kept.ChildlessAt.IsZero() && !gone.IsZero() && !o.Kept.ChildlessAt.After(gone)
}

// managerStop says why the manager stopped the unit, and since when.
func (u *service) managerStop(lk look) (by string, began time.Time) {
	rec := u.j.rec()
	if rec.StartedAt != nil && rec.TimedOut(lk.o, lk.v) {
		return byTimeout, rec.StartedAt.Add(rec.Timeout)
	}
	return byLeftovers, lk.o.Unit.MainExitAt
}

// release: RemainAfterExit= keeps an empty unit; it has told what it knew.
func (u *service) release(ctx context.Context, lk look) error {
	if lk.o.Unit.Read && lk.reading.ActiveState == "active" && lk.reading.InvocationID == u.j.rec().Identity.InvocationID {
		if err := u.unit.Stop(ctx); err != nil {
			return err
		}
	}
	if err := u.letGo(ctx); err != nil {
		return err
	}
	if u.guard != nil {
		u.guard.Release() // it ends while the report is written
		if u.guard.Early() || overlooks(u.client.Version()) {
			// So does its scope.
			l, guard, c, scope := u.j.l, u.guard, u.client, dbusclient.GuardScope(u.j.rec().Identity.Nonce)
			u.guard = nil
			l.ending.Go(func() { l.endGuard(guard, c, scope) })
		}
	}
	return nil
}

// keep: from now on the guard ends with the last process, which releases the
// unit.
func (u *service) keep() error {
	if u.shared {
		return fmt.Errorf("cannot leave job %s to itself: it was started to end with its call", u.j.rec().Name)
	}
	if u.guard == nil {
		return nil
	}
	events, err := u.j.group().EventsPath()
	if legacy := u.j.legacyHierarchy(); legacy != nil {
		events, err = legacy.LastingPath(u.j.rec().Identity.Cgroup)
	}
	if err != nil {
		return err
	}
	if err := u.guard.Keep(events); err != nil {
		return err
	}
	err = u.guard.Close()
	u.guard = nil
	return err
}

// clockStops is true where the manager's clock ends with the main process, and
// nobody keeps that.
func (u *service) clockStops() bool {
	return !u.j.rec().Tended && stopsClock(u.j.rec().Leftovers, u.client.Version())
}
