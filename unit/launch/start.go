package launch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

const (
	// minRecorderGrace is the least TimeoutStopSec= of a service with a
	// recorder, whose own time it is too (systemd.service(5)). A stop by
	// unitward keeps to a shorter grace by itself.
	minRecorderGrace = 2 * time.Second
	// lostReplyTimeout bounds the search for a start whose reply was lost.
	lostReplyTimeout = 30 * time.Second
	// bridgedWait is how long a request that a lost bus has delivered can take
	// to be read by a manager which answers elsewhere.
	bridgedWait = 5 * time.Second
	// dropWait bounds the wait for a unit that has ended to be unloaded.
	dropWait = 2 * time.Second
	// startTimeout bounds a start from its request on. It is the time that
	// systemd itself gives a start (systemd-system.conf(5)).
	startTimeout = 90 * time.Second
	// maxRecordedCommand is how much of a command line a record keeps.
	maxRecordedCommand = 64 << 10
	// drawTries is how often a generated name is drawn when it is taken.
	drawTries = 8
)

// Start starts a job on the first rung of Spec.Isolation that works here, and
// returns it once the command was executed. When it fails nothing of the job runs and nothing of
// it is left, but for a *unit.UnknownOutcomeError, after which the job's
// record stays for `verify`. A job whose record cannot be completed runs: see
// Job.Unsaved.
//
// Other errors: *AskError for a slice that cannot be inherited, *unit.IsolationError, *unit.NoManagerError, *unit.ExistsError, *unit.UnitExistsError,
// *unit.AccessError, *unit.PropertyError, *unit.LimitsError, *unit.StartError,
// *unit.RecordLostError, the errors of package property, and *store.DirError.
func (l *Launcher) Start(ctx context.Context, s *unit.Spec, io Stdio) (*Job, error) {
	l.Connect(ctx, s)
	if s.InheritSlice {
		var err error
		if s, err = l.inherit(ctx, s); err != nil {
			return nil, err
		}
	}
	var key *store.Key
	if s.Key != "" {
		var err error
		if key, err = l.store.Key(s.Key); err != nil {
			return nil, err
		}
		defer key.Close()
		if j, err := l.joined(ctx, key.Job()); j != nil || err != nil {
			return j, err
		}
	}
	for try := 1; ; try++ {
		j, err := l.start(ctx, s, io, key)
		var taken *unit.ExistsError
		var unitTaken *unit.UnitExistsError
		if s.Name == "" && try < drawTries && (errors.As(err, &taken) || errors.As(err, &unitTaken)) {
			continue // a generated name: draw another
		}
		return j, err
	}
}

// Connect begins to connect to the manager that a job needs first, if it needs
// one, and does not wait: what else a start needs can be laid out meanwhile.
// Start awaits it, and has its error.
func (l *Launcher) Connect(_ context.Context, s *unit.Spec) {
	if !managed(s.Isolation[0]) || s.Isolation[0] == verify.IsolationScope && s.Lifetime != unit.LifetimeCall {
		return
	}
	l.begin(seat{s.Manager, s.Remote})
}

// joined is the job of a key, if it is not settled; else nil.
func (l *Launcher) joined(ctx context.Context, name string) (*Job, error) {
	if name == "" {
		return nil, nil
	}
	j, err := l.Open(ctx, name)
	var none *unit.NotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rep, err := j.Look(ctx)
	if err != nil || rep.State == unit.StateSettled || j.last.v.Lost && j.last.v.Tree.Empty {
		j.Close()
		return nil, err
	}
	j.join = true
	return j, nil
}

func (l *Launcher) start(ctx context.Context, s *unit.Spec, io Stdio, key *store.Key) (*Job, error) {
	rec := l.record(s)
	if s.OwnerUnit != "" {
		var err error
		if rec.OwnerUnit, err = l.ownerUnit(ctx, s); err != nil {
			return nil, err
		}
	}
	var gone *unit.Record
	if s.Name != "" {
		var err error
		if gone, err = l.reclaim(ctx, rec.Name); err != nil {
			return nil, err
		}
	}
	entry, err := l.store.Reserve(rec.Name)
	if err != nil {
		l.putBack(gone)
		return nil, err
	}
	rec.Streams = streamsOf(s, io)
	j := newJob(l, rec, entry)
	if key != nil {
		err = key.Put(rec.Name)
	}
	if err == nil {
		err = j.climb(ctx, s, io)
	}
	if err != nil {
		var unknown *unit.UnknownOutcomeError
		if errors.As(err, &unknown) {
			unknown.Job = rec.Name
		} else {
			j.removeLeft()
			entry.Remove()
			l.putBack(gone)
		}
		j.Close()
		return nil, err
	}
	return j, nil
}

// reclaim settles an ended job of the same name, so that the name is free. One
// whose outcome is lost for good and of which nothing is left gives way too:
// nobody could ever settle it. Its record is returned then.
func (l *Launcher) reclaim(ctx context.Context, name string) (gone *unit.Record, err error) {
	entry, rec, err := l.store.Load(name)
	var none *unit.NotFoundError
	if errors.As(err, &none) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entry.Close()
	if rec.Sealed != nil {
		return nil, nil
	}
	old, err := l.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer old.Close()
	rep, err := old.Look(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case rep.State == unit.StateSettled:
		return nil, nil
	case old.last.over():
		old.removeLeft()
		return old.rec(), old.entry.Remove()
	}
	return nil, &unit.ExistsError{Name: name, State: rep.State}
}

// putBack restores the record of a job whose outcome is lost, which gave way to
// a start that came to nothing; nil is none. Where the name has been taken
// meanwhile it stays away.
func (l *Launcher) putBack(gone *unit.Record) {
	if gone == nil {
		return
	}
	if e, err := l.store.Create(gone); err == nil {
		e.Close()
	}
}

// record is who the job will be.
func (l *Launcher) record(s *unit.Spec) *unit.Record {
	rec := newRecord(s, l.host, l.cfg.UID)
	if rec.Name == "" {
		rec.Name = NewName(s.Command[0])
	}
	rec.Identity.Nonce, rec.OwnerProcess, rec.Launcher = random(16), l.owner(s), l.self
	return rec
}

// newRecord is what of a record is known from the spec.
func newRecord(s *unit.Spec, host hostIdentity, uid int) *unit.Record {
	return &unit.Record{
		Schema: unit.RecordSchema, Name: s.Name,
		Identity: unit.Identity{Host: host.machine, Boot: host.boot, UID: uid, PIDNamespace: pidNamespace()},
		Command:  recorded(s.Command), Cwd: s.Dir, Owner: s.Owner, Lifetime: s.Lifetime,
		Leftovers: s.Leftovers, Timeout: s.Timeout, Grace: s.Grace, KillSignal: s.KillSignal,
		Output: s.Output, Attachable: s.Window != nil,
		CreatedAt: time.Now(),
	}
}

// NotStarted is the report of a job of user uid of which nothing ran, because
// of err (unit.ReasonStartFailed). It has a name only where Spec.Name has one,
// and an isolation only where one alone was asked for.
func NotStarted(s *unit.Spec, uid int, err error) unit.Report {
	rec := newRecord(s, readHost(), uid)
	if len(s.Isolation) == 1 {
		rec.Identity.Isolation = s.Isolation[0]
	}
	if len(s.Isolation) == 1 && managed(s.Isolation[0]) {
		rec.Identity.Manager = s.Manager
	}
	var isolation *unit.IsolationError
	if errors.As(err, &isolation) {
		rec.Refused = isolation.Refused
	}
	var limits *unit.LimitsError
	if errors.As(err, &limits) {
		rec.Limits = []unit.Limit{limits.Limit}
	}
	return rec.StartFailed(now(), err.Error())
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

// owner is the process that a job ends with whose keeper is not its caller.
func (l *Launcher) owner(s *unit.Spec) unit.Process {
	switch {
	case s.Lifetime == unit.LifetimeCall && s.DetachAfter > 0:
		return l.self
	case s.Lifetime != unit.LifetimeOwner, s.OwnerUnit != "":
		return unit.Process{}
	}
	p := unit.Process{PID: s.OwnerPID}
	p.StartTime, _ = keeper.StartTime(p.PID) // gone already: then it is recognised by nobody
	return p
}

// NewName draws a name for a job by its command.
func NewName(command string) string { return unit.NewName(command, random(4)) }
