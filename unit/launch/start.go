package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

const (
	// minRecorderGrace is the least TimeoutStopSec= of a service with a
	// recorder, whose own time it is too (systemd.service(5)). A stop by
	// unitward keeps to a shorter grace by itself.
	minRecorderGrace = 2 * time.Second
	// lostReplyTimeout bounds the search for a start whose reply was lost.
	lostReplyTimeout = 30 * time.Second
	// startTimeout bounds a start from its request on. It is the time that
	// systemd itself gives a start (systemd-system.conf(5)).
	startTimeout = 90 * time.Second
	// maxRecordedCommand is how much of a command line a record keeps.
	maxRecordedCommand = 64 << 10
	// drawTries is how often a generated name is drawn when it is taken.
	drawTries = 8
)

// Start starts a job as its own systemd service and returns it once the
// command was executed. When it fails nothing of the job runs and nothing of
// it is left, but for a *unit.UnknownOutcomeError, after which the job's
// record stays for `verify`.
//
// Other errors: *unit.NoManagerError, *unit.ExistsError, *unit.UnitExistsError,
// *unit.AccessError, *unit.PropertyError, *unit.LimitsError, *unit.StartError,
// the errors of package property, and *store.DirError.
func (l *Launcher) Start(ctx context.Context, s *unit.Spec, io Stdio) (*Job, error) {
	l.Connect(ctx, s.Manager)
	for try := 1; ; try++ {
		j, err := l.start(ctx, s, io)
		var taken *unit.ExistsError
		var unitTaken *unit.UnitExistsError
		if s.Name == "" && try < drawTries && (errors.As(err, &taken) || errors.As(err, &unitTaken)) {
			continue // a generated name: draw another
		}
		return j, err
	}
}

// Connect begins to connect to a manager and does not wait: what else a start
// needs can be laid out meanwhile. Start awaits it, and has its error.
func (l *Launcher) Connect(ctx context.Context, m unit.Manager) {
	begun := make(chan struct{})
	go func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(begun)
		if l.clients[m] == nil && l.refused[m] == nil {
			_, l.refused[m] = l.dial(ctx, m)
		}
	}()
	<-begun
}

// connected awaits what Connect began.
func (l *Launcher) connected(ctx context.Context, m unit.Manager) (*dbusclient.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refused[m]; err != nil {
		delete(l.refused, m) // the next start looks again
		return nil, err
	}
	return l.dial(ctx, m)
}

func (l *Launcher) start(ctx context.Context, s *unit.Spec, io Stdio) (*Job, error) {
	rec := l.record(s)
	if s.Name != "" {
		if err := l.reclaim(ctx, rec.Name); err != nil {
			return nil, err
		}
	}
	entry, err := l.store.Reserve(rec.Name)
	if err != nil {
		return nil, err
	}
	j := &Job{l: l, rec: rec, entry: entry}
	// While the manager is being connected to. What it says of itself is
	// added before the start.
	err = entry.Put(rec)
	if err == nil {
		err = j.launch(ctx, s, io)
	}
	if err != nil {
		var unknown *unit.UnknownOutcomeError
		if !errors.As(err, &unknown) {
			j.removeLeft()
			entry.Remove()
		}
		j.guardEnd()
		j.Close()
		return nil, err
	}
	return j, nil
}

// reclaim settles an ended job of the same name, so that the name is free.
func (l *Launcher) reclaim(ctx context.Context, name string) error {
	entry, rec, err := l.store.Load(name)
	var none *unit.NotFoundError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return err
	}
	entry.Close()
	if rec.Sealed != nil {
		return nil
	}
	old, err := l.Open(ctx, name)
	if err != nil {
		return err
	}
	defer old.Close()
	rep, err := old.Look(ctx)
	if err != nil {
		return err
	}
	if rep.State != unit.StateSettled {
		return &unit.ExistsError{Name: name, State: rep.State}
	}
	return nil
}

// record is who the job will be.
func (l *Launcher) record(s *unit.Spec) *unit.Record {
	name := s.Name
	if name == "" {
		name = unit.NewName(s.Command[0], random(4))
	}
	return &unit.Record{
		Schema: unit.RecordSchema, Name: name,
		Identity: unit.Identity{
			Host: l.host.machine, Boot: l.host.boot, UID: l.cfg.UID, Isolation: verify.IsolationService,
			Manager: s.Manager, Unit: name + ".service", Nonce: random(16),
		},
		Command: recorded(s.Command), Cwd: s.Dir, Owner: s.Owner, OwnerPID: s.OwnerPID, Lifetime: s.Lifetime,
		Leftovers: s.Leftovers, Timeout: s.Timeout, Grace: s.Grace, KillSignal: s.KillSignal,
		Launcher:  l.self,
		CreatedAt: time.Now(),
		Recorder:  s.Lifetime != unit.LifetimeCall,
	}
}

func random(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// recorded is the command as the record keeps it: JSON is UTF-8, and a record
// is bounded.
func recorded(command []string) []string {
	left := maxRecordedCommand
	out := make([]string, 0, len(command))
	for i, a := range command {
		if len(a) > left {
			return append(out, fmt.Sprintf("… (%d more arguments)", len(command)-i))
		}
		left -= len(a)
		out = append(out, a)
	}
	return out
}

// launch makes the unit and fills in who the job turned out to be.
func (j *Job) launch(ctx context.Context, s *unit.Spec, io Stdio) (err error) {
	if err := j.watchLifetime(s); err != nil {
		return err
	}
	if j.client, err = j.l.connected(ctx, s.Manager); err != nil {
		return err
	}
	if s.RequireLimits {
		if err := j.l.require(j.client, s.Limits); err != nil {
			return err
		}
	}
	if !j.client.References() {
		// Nobody can hold the unit loaded to read its exit from it.
		j.rec.Recorder = true
	}
	// Known beforehand, so that a start that is cut off leaves a place to
	// look at.
	j.rec.Identity.Cgroup = j.client.UnitCgroup(slice(s), j.rec.Identity.Unit)
	svc, h, err := j.l.service(ctx, j.client, s, j.rec, j.entry.Dir(), io)
	if err != nil {
		return err
	}
	defer h.remove()
	if err := j.entry.Put(j.rec); err != nil {
		return err
	}
	if j.guard != nil {
		svc.Scope, svc.GuardPID = dbusclient.GuardScope(j.rec.Identity.Nonce), j.guard.PID
	}
	// From here on the job may run: who gave up meanwhile gets a job that he
	// can signal, not one that was killed half-way into its start.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	j.unit, err = j.client.StartService(ctx, svc)
	var unknown *unit.UnknownOutcomeError
	if errors.As(err, &unknown) {
		err = j.recover(ctx, unknown, h)
	}
	if err != nil {
		return err
	}
	result, err := j.unit.Started(ctx)
	if errors.As(err, &unknown) {
		return err // there is no unit to end
	}
	if err != nil {
		j.abandon()
		return fmt.Errorf("cannot await the start of %s: %w", svc.Unit, err)
	}
	if result == "done" && !dbusclient.WaitsForExec(j.client.Version()) && refusable(s) {
		if err := j.awaitExec(ctx); err != nil {
			j.abandon()
			return err
		}
	}
	if result != "done" || !dbusclient.WaitsForExec(j.client.Version()) {
		if err := neverRan(s, svc.Unit, result, j.unit.Read(ctx, dbusclient.DepthAll)); err != nil {
			j.abandon()
			return err
		}
	}
	if h.await != nil && result == "done" {
		err := h.await.Executed(func() bool { r := j.unit.Read(ctx, dbusclient.DepthAll); return r.Read && r.ExecMainCode != 0 })
		if err != nil {
			j.abandon()
			return becomeFailed(svc.Unit, s, err)
		}
	}
	j.fresh, j.started = true, true
	return j.identify(ctx, s)
}

// awaitExec waits until the main process has become the command, or has ended,
// for a manager whose start job does not. Until then systemd's own child has
// its name in parentheses.
func (j *Job) awaitExec(ctx context.Context) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		id, err := j.unit.Identify(ctx)
		if err != nil {
			return fmt.Errorf("cannot await the command of %s: %w", j.rec.Identity.Unit, err)
		}
		if id.MainPID != 0 && !keeper.Forked(id.MainPID) {
			return nil
		}
		if r := j.unit.Read(ctx, dbusclient.DepthVerdict); !r.Read || r.LoadState != "loaded" || r.ExecMainCode != 0 {
			return nil // it has ended, and its status will say how
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot await the command of %s: %w", j.rec.Identity.Unit, ctx.Err())
		case <-time.After(pause):
		}
	}
}

// watchLifetime starts the guard that ends the job with the call or the owner.
func (j *Job) watchLifetime(s *unit.Spec) (err error) {
	switch s.Lifetime {
	case unit.LifetimeCall:
		j.guard, err = keeper.GuardSelf()
	case unit.LifetimeOwner:
		j.guard, err = keeper.GuardProcess(s.OwnerPID)
	}
	return err
}

func (j *Job) guardEnd() {
	if j.guard != nil {
		j.guard.Kill()
		j.guard = nil
	}
}

// abandon ends a unit of which nothing may go on: its start failed. What it
// left is not a job.
func (j *Job) abandon() {
	ctx, cancel := context.WithTimeout(context.Background(), lostReplyTimeout)
	defer cancel()
	// Whatever fails here is said by the start's own error or by nobody.
	_ = j.unit.Kill(ctx, dbusclient.WhoAll, sigKill)
	_ = j.unit.Stop(ctx)
	j.guardEnd()
}

// recover looks a unit up whose start was never answered. It is ours when it
// carries our nonce; when there is none, nothing was started.
func (j *Job) recover(ctx context.Context, lost *unit.UnknownOutcomeError, h *handed) error {
	ctx, cancel := context.WithTimeout(ctx, lostReplyTimeout)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		u, err := j.client.Open(ctx, j.rec.Identity.Unit)
		if err == nil {
			j.unit = u
			r := u.Read(ctx, dbusclient.DepthAll)
			ours, cerr := u.Carries(ctx, j.rec.Identity.Nonce)
			switch {
			case cerr == nil && r.Read && r.LoadState == "loaded" && ours:
				return nil
			case cerr == nil && r.Read && j.carriedOut(ctx, h):
				return &unit.UnknownOutcomeError{Op: lost.Op, Err: errEndedUnseen}
			case cerr == nil && r.Read:
				// It answers, after the connection was made anew: a request
				// that was still under way has been carried out by now.
				return fmt.Errorf("cannot start %s: the request was lost (%w)", j.rec.Identity.Unit, errLostRequest)
			}
			u.Close()
		}
		select {
		case <-ctx.Done():
			return lost
		case <-time.After(pause):
		}
	}
}

// carriedOut tells, of a unit that is not there, one that has come and gone
// from one that never was. It left traces: its guard's scope, which lasts as
// long as the guard; a handover that was taken; the word of its recorder.
func (j *Job) carriedOut(ctx context.Context, h *handed) bool {
	if j.guard != nil {
		loaded, err := j.client.Loaded(ctx, dbusclient.GuardScope(j.rec.Identity.Nonce))
		if err != nil || loaded {
			return true // or not known
		}
	}
	if h.await != nil {
		if _, err := os.Lstat(h.files[0]); err != nil {
			return true
		}
	}
	recorded, err := j.entry.Recorded()
	return recorded != nil || err != nil
}

var (
	errLostRequest = errors.New("the manager never got it")
	errEndedUnseen = errors.New("it was, and the job has ended before anybody could look: its outcome is unknown")
)

// identify records who the job turned out to be.
func (j *Job) identify(ctx context.Context, s *unit.Spec) error {
	r, err := j.unit.Identify(ctx)
	if err != nil {
		return &unit.UnknownOutcomeError{Op: "the start of " + j.rec.Identity.Unit, Err: err}
	}
	id := j.rec.Identity
	id.InvocationID, id.PID = r.InvocationID, r.MainPID
	if r.ControlGroup != "" {
		id.Cgroup = r.ControlGroup
	}
	if h := j.l.hierarchy(); h != nil && id.Cgroup != "" {
		if g, err := h.Lookup(id.Cgroup); err == nil {
			id.CgroupInode = g.Inode
		}
	}
	if id.PID != 0 {
		id.StartTime, _ = keeper.StartTime(id.PID) // gone already: the exit will say
	}
	started := r.StartedAt
	if started.IsZero() {
		started = time.Now()
	}
	limits := j.readLimits(s.Limits, id)
	complete := func(rec *unit.Record) { rec.Identity, rec.StartedAt, rec.Limits = id, &started, limits }
	complete(j.rec)
	if j.fresh && s.Lifetime == unit.LifetimeCall && j.unit.Ended() {
		return nil // it has ended: what is written next is its end
	}
	if err := j.update(complete); err != nil {
		// The job runs and cannot be found again: nothing may be lost.
		j.abandon()
		return err
	}
	if i := slices.IndexFunc(limits, func(lim unit.Limit) bool { return !lim.Applied }); i >= 0 && s.RequireLimits {
		j.abandon()
		return &unit.LimitsError{Limit: limits[i]}
	}
	return nil
}
