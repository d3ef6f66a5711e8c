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
	// dropWait bounds the wait for a failed start's unit to be unloaded.
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
// record stays for `verify`.
//
// Other errors: *unit.IsolationError, *unit.NoManagerError, *unit.ExistsError, *unit.UnitExistsError,
// *unit.AccessError, *unit.PropertyError, *unit.LimitsError, *unit.StartError,
// the errors of package property, and *store.DirError.
func (l *Launcher) Start(ctx context.Context, s *unit.Spec, io Stdio) (*Job, error) {
	l.Connect(ctx, s)
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

// Connect begins to connect to the manager that a job needs first, if it needs
// one, and does not wait: what else a start needs can be laid out meanwhile.
// Start awaits it, and has its error.
func (l *Launcher) Connect(_ context.Context, s *unit.Spec) {
	if !managed(s.Isolation[0]) || s.Isolation[0] == verify.IsolationScope && s.Lifetime != unit.LifetimeCall {
		return
	}
	l.begin(s.Manager)
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
	j := newJob(l, rec, entry)
	// While the manager is being connected to. What it says of itself is
	// added before the start.
	err = entry.Put(rec)
	if err == nil {
		err = j.climb(ctx, s, io)
	}
	if err != nil {
		var unknown *unit.UnknownOutcomeError
		if !errors.As(err, &unknown) {
			j.removeLeft()
			entry.Remove()
		}
		j.Close()
		return nil, err
	}
	return j, nil
}

// reclaim settles an ended job of the same name, so that the name is free. One
// whose outcome is lost for good and of which nothing is left gives way too:
// nobody could ever settle it.
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
	switch {
	case rep.State == unit.StateSettled:
		return nil
	case old.last.over():
		old.removeLeft()
		return old.entry.Remove()
	}
	return &unit.ExistsError{Name: name, State: rep.State}
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
			Host: l.host.machine, Boot: l.host.boot, UID: l.cfg.UID, Nonce: random(16),
		},
		Command: recorded(s.Command), Cwd: s.Dir, Owner: s.Owner, Lifetime: s.Lifetime,
		Leftovers: s.Leftovers, Timeout: s.Timeout, Grace: s.Grace, KillSignal: s.KillSignal,
		OwnerProcess: owner(s),
		Launcher:     l.self,
		CreatedAt:    time.Now(),
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

// owner is the process that a job of lifetime owner ends with.
func owner(s *unit.Spec) unit.Process {
	if s.Lifetime != unit.LifetimeOwner {
		return unit.Process{}
	}
	p := unit.Process{PID: s.OwnerPID}
	p.StartTime, _ = keeper.StartTime(p.PID) // gone already: then it is recognised by nobody
	return p
}
