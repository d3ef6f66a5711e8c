package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/terminal"
)

// launch makes the unit and fills in who the job turned out to be.
func (u *service) launch(ctx context.Context, s *unit.Spec, io Stdio) (err error) {
	if s.Remote.Named() {
		return u.launchFar(ctx, s, io)
	}
	// Whatever can outlive this process ends where nobody may be to read its exit.
	u.j.rec().Recorder = outlives(s) || lasting(s) && !s.Apart() // who would change what the rest is executed as
	if err := mayEnter(s, u.j.rec().Identity.Unit); err != nil {
		return err
	}
	if err := u.watchOwner(s); err != nil {
		return err
	}
	if u.client, err = u.j.l.client(ctx, here(s.Manager)); err != nil {
		return err
	}
	if s.RequireLimits {
		if err := u.j.l.require(u.client, s.Limits); err != nil {
			return err
		}
	}
	if !u.client.References() {
		// Nobody can hold the unit loaded to read its exit from it.
		u.j.rec().Recorder = true
	}
	// Known beforehand, so that a start that is cut off leaves a place to
	// look at.
	u.j.rec().Identity.Cgroup = u.client.UnitCgroup(slice(s), u.j.rec().Identity.Unit)
	u.j.rec().Tended = tends(s, u.client.Version())
	svc, h, err := u.j.l.service(ctx, u.client, s, u.j.rec(), u.j.entry.Dir(), io)
	if err != nil {
		return unsent(err)
	}
	u.j.rec().Left = h.all()
	if err := u.j.entry.Put(u.j.rec()); err != nil {
		return err
	}
	if u.j.rec().Recorder {
		if err := u.j.entry.ReserveExit(); err != nil {
			return err
		}
	}
	if err := u.guarded(ctx, s); err != nil {
		return err
	}
	h.guarded(u)
	defer h.remove()
	if err := h.write(); err != nil {
		return err
	}
	// From here on the job may run: who gave up meanwhile gets a job that he
	// can signal, not one that was killed half-way into its start.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	// Before systemd 256 the setup of the command resets a terminal that it is
	// given, and drops what was typed meanwhile (reset_terminal_fd()).
	old, executed := doubtful(u.client.Version()), false
	resets := old && !s.PTY && terminal.Is(svc.Stdin)
	restore := func() {}
	if resets {
		restore = sync.OnceFunc(terminal.Keep(svc.Stdin))
		defer restore() // also where it never came to the command
	}
	u.unit, err = u.request(ctx, s, &svc)
	var taken *unit.UnitExistsError
	if s.Name != "" && errors.As(err, &taken) {
		// The last job of the name can be settled before the manager has seen the
		// end of its guard. And one that has lost its bus drops the references of
		// that without a look at what they held (bus_done_api()): it takes a job,
		// such as to stop what has ended, to have it unloaded.
		if leaving, lerr := u.client.Leaving(ctx, svc.Unit); lerr == nil && leaving {
			_ = u.client.StopUnit(ctx, svc.Unit) // what fails leaves it to the wait
			u.dropped(ctx)
			u.unit, err = u.request(ctx, s, &svc)
		}
	}
	var unknown *unit.UnknownOutcomeError
	if errors.As(err, &unknown) {
		err = u.recover(ctx, unknown, h)
	}
	if err != nil {
		return err
	}
	io.meanwhile()
	u.j.l.hierarchy() // found once, and now there is time for it
	result, err := u.unit.Started(ctx)
	if errors.As(err, &unknown) {
		return err // there is no unit to end
	}
	if err != nil {
		u.abandon()
		// It may have run, and nobody could be asked: its record stays.
		return &unit.UnknownOutcomeError{Op: "the start of " + svc.Unit, Err: err}
	}
	if result == "done" && old && (refusable(s) || s.PTY || resets) {
		if executed, err = u.awaitExec(ctx); err != nil {
			u.abandon()
			return &unit.UnknownOutcomeError{Op: "the start of " + svc.Unit, Err: err}
		}
		restore() // before the command has changed much
	}
	// A start job that is done with the fork says nothing of the command, and a
	// unit that goes on no more than that.
	forked := !dbusclient.WaitsForExec(u.client.Version()) && u.unit.Ended()
	if result != "done" || !executed && old && (refusable(s) || forked) {
		if err := neverRan(s, svc.Unit, result, u.unit.ReadStarted(ctx)); err != nil {
			u.abandon()
			return err
		}
	}
	if h.await != nil {
		err := h.await.Executed(func() bool {
			r := u.unit.Read(ctx, dbusclient.DepthVerdict)
			return r.Read && (r.ExecMainCode != 0 || r.LoadState != "loaded" || r.ActiveState == "inactive" || r.ActiveState == "failed")
		})
		if err != nil {
			u.abandon()
			return becomeFailed(svc.Unit, s, err)
		}
		if _, err := os.Lstat(h.files[0]); err == nil {
			// Whoever takes it removes it before anything else.
			u.abandon()
			return untaken(svc.Unit)
		}
	}
	u.fresh, u.started = true, true
	if h.await != nil {
		u.command = h.await.Command()
	}
	return u.identify(ctx, s)
}

// unsent is the error of a start before anything was asked for: that a question
// to the manager was not answered leaves no doubt about it.
func unsent(err error) error {
	var unknown *unit.UnknownOutcomeError
	if errors.As(err, &unknown) {
		return fmt.Errorf("cannot %s: %w", unknown.Op, unknown.Err)
	}
	return err
}

// awaitExec waits until the main process has become the command, or has ended,
// for a manager whose start job does not. Until then systemd's own child has
// its name in parentheses. executed is true when the command was seen.
func (u *service) awaitExec(ctx context.Context) (executed bool, err error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		id, err := u.unit.Identify(ctx)
		if err != nil {
			return false, fmt.Errorf("cannot await the command of %s: %w", u.j.rec().Identity.Unit, err)
		}
		if keeper.Executed(id.MainPID) {
			return true, nil
		}
		if r := u.unit.Read(ctx, dbusclient.DepthVerdict); !r.Read || r.LoadState != "loaded" || r.ExecMainCode != 0 {
			return false, nil // it has ended, and its status will say how
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("cannot await the command of %s: %w", u.j.rec().Identity.Unit, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// request asks for the service, bound to a guard where its lifetime wants one.
func (u *service) request(ctx context.Context, s *unit.Spec, svc *dbusclient.Service) (*dbusclient.Unit, error) {
	if g := u.common; g != nil {
		u.shared, svc.Scope = true, g.scopeName()
		started, err := u.client.StartService(ctx, *svc)
		var unknown *unit.UnknownOutcomeError
		if err == nil || errors.As(err, &unknown) || !g.ended(svc.Scope) {
			return started, err
		}
		u.common, u.shared, svc.Scope = nil, false, ""
		if err := u.guardSelf(); err != nil {
			return nil, err
		}
	}
	if u.guard != nil {
		svc.Scope, svc.GuardPID = dbusclient.GuardScope(u.j.rec().Identity.Nonce), u.guard.PID
		svc.ScopeEnds = s.Lifetime == unit.LifetimeOwner // nobody else ends it
		svc.Sending, svc.Sent = func() { u.guard.Expect(svc.Scope) }, u.guard.Sent
	}
	return u.client.StartService(ctx, *svc)
}

// abandon ends a unit of which nothing may go on: its start failed. What it
// left is not a job.
func (u *service) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), lostReplyTimeout)
	defer cancel()
	// Whatever fails here is said by the start's own error or by nobody.
	_ = u.unit.Kill(ctx, unit.WhoAll, sigKill)
	_ = u.unit.Stop(ctx)
	_ = u.letGo(ctx)
	u.guardEnd()
	u.unit.Close()
	u.dropped(ctx)
}

// dropped waits until the manager has let go of a unit that nobody holds, so
// that its name is free. It gives up after a while.
func (u *service) dropped(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dropWait)
	defer cancel()
	for pause := time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 50*time.Millisecond) {
		if loaded, err := u.client.Loaded(ctx, u.j.rec().Identity.Unit); err != nil || !loaded {
			return
		}
		time.Sleep(pause)
	}
}

// locate sees which directory the unit's cgroup is, while it is there.
func (u *service) locate(id *unit.Identity) {
	if h := u.j.hierarchy(); h != nil && id.Cgroup != "" {
		if g, err := h.Lookup(id.Cgroup); err == nil {
			id.CgroupInode = g.Inode
		}
	}
}

// identify records who the job turned out to be.
func (u *service) identify(ctx context.Context, s *unit.Spec) error {
	r, err := u.unit.Identify(ctx)
	for until := now().Add(lostReplyTimeout); dbusclient.Absent(err) && now().Before(until); r, err = u.unit.Identify(ctx) {
		wallClock{}.Sleep(ctx, unloadPause) // it executes itself anew
	}
	if err != nil {
		return &unit.UnknownOutcomeError{Op: "the start of " + u.j.rec().Identity.Unit, Err: err}
	}
	id := u.j.rec().Identity
	id.InvocationID, id.PID = r.InvocationID, r.MainPID
	over := u.fresh && s.Lifetime == unit.LifetimeCall && u.unit.Ended()
	if r.ControlGroup != "" {
		id.Cgroup = r.ControlGroup
	}
	u.locate(&id)
	if id.CgroupInode == 0 && (!over || len(s.Limits) > 0) {
		if at, err := u.unit.Cgroup(ctx); err == nil && at != "" {
			id.Cgroup = at
			u.locate(&id)
		}
	}
	if u.command.PID != 0 {
		id.PID, id.StartTime = u.command.PID, u.command.StartTime
	} else if id.PID != 0 && id.Far == nil {
		id.StartTime, _ = keeper.StartTime(id.PID) // gone already: the exit will say
	}
	started := r.StartedAt
	if started.IsZero() {
		started = time.Now()
	}
	limits := u.j.readLimits(u.client, s.Limits, id)
	complete := func(rec *unit.Record) {
		if u.started {
			rec.Limits = limits
		} else if rec.Identity.InvocationID != "" {
			return // who started it knows more, and has just written that
		}
		rec.Identity, rec.StartedAt = id, &started
	}
	complete(u.j.rec())
	if over {
		return nil // what is written next is its end
	}
	if err := u.j.note(complete); err != nil {
		// It runs, and what was written before the start leads to it: its unit
		// and its nonce. Only where that is gone as well nobody could find it.
		if _, rerr := u.j.entry.Record(); rerr != nil {
			if u.started {
				u.abandon()
				err = &unit.RecordLostError{Name: u.j.rec().Name, Err: rerr}
			}
			return err
		}
		u.j.unsaved = &UnsavedError{Name: u.j.rec().Name, Err: err}
	}
	if i := slices.IndexFunc(limits, func(lim unit.Limit) bool { return !lim.Applied }); i >= 0 && s.RequireLimits {
		u.abandon()
		return &unit.LimitsError{Limit: limits[i]}
	}
	return nil
}
