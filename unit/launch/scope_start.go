package launch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// How often, and how long apart, a scope is asked for whose name is taken; and how
// long after a question that the manager has lost it is asked again.
const (
	unloadTries = 20
	unloadPause = 50 * time.Millisecond
)

// lostTries is how often a scope is asked for whose requests are lost.
const lostTries = 3

// scopeTimeout bounds the start of a scope, which waits for nothing: a reply that
// does not come, and the search for the scope after that.
const scopeTimeout = time.Minute

// start makes the scope around the main process, which waits.
func (p *scopePlace) start(ctx context.Context, s *unit.Spec) error {
	rec := p.j.rec()
	id := &rec.Identity
	c, err := p.j.l.client(ctx, here(s.Manager))
	if err != nil {
		return err
	}
	if s.RequireLimits {
		if err := p.j.l.require(c, s.Limits); err != nil {
			return err
		}
	}
	if err := property.SupportedScope(s.Properties, c.Version()); err != nil {
		return err
	}
	props, err := properties(s)
	if err != nil {
		return err
	}
	pidfd, err := keeper.Open(unit.Process{PID: id.PID, StartTime: id.StartTime})
	if err != nil {
		return err
	}
	defer pidfd.Close()
	description := s.Description
	if description == "" {
		description = describe(s.Command)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scopeTimeout)
	defer cancel()
	scope := dbusclient.Scope{
		Unit: id.Unit, Description: description, Slice: slice(s), PID: id.PID, PIDFD: pidfd,
		Grace: s.Grace, Timeout: backstop(s.Timeout), KillSignal: s.KillSignal, JobMode: s.JobMode, Properties: props,
	}
	ask := func() {
		if p.unit != nil {
			p.unit.Close()
		}
		p.unit, err = c.StartScope(ctx, scope)
	}
	ask()
	var exists *unit.UnitExistsError
	for tries := 0; errors.As(err, &exists) && tries < unloadTries; tries++ {
		// The last job of the name can be settled before the manager has
		// dropped its scope.
		time.Sleep(unloadPause)
		ask()
	}
	var unknown *unit.UnknownOutcomeError
	for tries := 0; errors.As(err, &unknown) && tries < lostTries; tries++ {
		err = p.recover(ctx, c, unknown)
		if errors.Is(err, errLostRequest) && tries < lostTries-1 {
			// It can be asked for again: nothing is executed before the scope is
			// there, and one process is in one scope.
			ask()
		}
	}
	if err != nil {
		return err
	}
	p.made = c
	result, err := p.unit.ScopeStarted(ctx)
	if err != nil {
		return err
	}
	r := p.unit.ReadScope(ctx)
	for until := now().Add(lostReplyTimeout); r.Absent && now().Before(until); r = p.unit.ReadScope(ctx) {
		wallClock{}.Sleep(ctx, unloadPause) // it executes itself anew
	}
	switch {
	case !r.Read:
		return errors.New("cannot start " + id.Unit + ": " + r.Err)
	case result != "done" && result != "" || r.ControlGroup == "":
		return &unit.IsolationError{Isolation: verify.IsolationScope, Refused: []unit.Refusal{{What: id.Unit,
			Why: fmt.Sprintf("its start job ended as %q, with ControlGroup %q; a user manager needs the system bus to take a process from another's cgroup", result, r.ControlGroup)}}}
	}
	// The manager's word alone would not do: up to systemd 257 a scope can be
	// called inactive while its process lives, and the reverse.
	if found, err := cgroupOf(id.PID); err != nil || found != r.ControlGroup {
		return &unit.IsolationError{Isolation: verify.IsolationScope, Refused: []unit.Refusal{{What: id.Unit,
			Why: fmt.Sprintf("its process is in %q, not in %q (%v)", found, r.ControlGroup, err)}}}
	}
	id.InvocationID, id.Cgroup = r.InvocationID, r.ControlGroup
	if h := p.j.l.hierarchy(); h != nil {
		g, err := h.Lookup(id.Cgroup)
		if err != nil {
			return err
		}
		id.CgroupInode = g.Inode
	}
	rec.Limits = p.j.readLimits(c, s.Limits, *id)
	if i := slices.IndexFunc(rec.Limits, func(l unit.Limit) bool { return !l.Applied }); i >= 0 && s.RequireLimits {
		return &unit.LimitsError{Limit: rec.Limits[i]}
	}
	return nil
}

// recover looks the scope up when its start was never answered. It is ours when it has
// our process, which waits and can be in one cgroup alone: that is more than a nonce.
func (p *scopePlace) recover(ctx context.Context, c *dbusclient.Client, lost *unit.UnknownOutcomeError) error {
	id := p.j.rec().Identity
	return recoverStart(ctx, c, id.Unit, lost, func(ctx context.Context, found *dbusclient.Unit) recovered {
		if p.unit != nil {
			p.unit.Close()
		}
		p.unit = found
		r := found.ReadScope(ctx)
		at, err := cgroupOf(id.PID)
		switch {
		case !r.Read || err != nil:
			return recoveredNothing
		case r.LoadState == "loaded" && r.ControlGroup != "" && r.ControlGroup == at:
			return recoveredOurs
		case r.ActiveState == "activating":
			return recoveredNothing
		}
		return recoveredNone
	})
}

// backstop is when the manager ends a scope whose keeper has not: it is there
// for when that is dead.
func backstop(timeout time.Duration) time.Duration {
	const late = 2 * time.Second
	if timeout == 0 || timeout+late < timeout {
		return timeout
	}
	return timeout + late
}
