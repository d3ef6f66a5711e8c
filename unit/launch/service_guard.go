package launch

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// guarded sees to the guard that ends a job of lifetime call with this process: that of
// all jobs, or one of its own.
func (u *service) guarded(ctx context.Context, s *unit.Spec) error {
	if s.Lifetime != unit.LifetimeCall {
		return nil
	}
	if shares(s) {
		if u.common = u.j.l.sharedGuard(ctx, u.client, s.Manager); u.common != nil {
			return nil
		}
	}
	return u.guardSelf()
}

// watchOwner starts the guard that ends the job with its owner.
func (u *service) watchOwner(s *unit.Spec) (err error) {
	switch {
	case s.Lifetime != unit.LifetimeOwner:
	case s.OwnerUnit != "":
		u.guard, err = u.guardUnit()
	default:
		if u.guard, err = keeper.GuardProcess(s.OwnerPID); errors.Is(err, unix.ESRCH) {
			err = &OwnerError{PID: s.OwnerPID, Why: unix.ESRCH.Error()}
		}
	}
	return err
}

func (u *service) guardSelf() (err error) {
	u.guard, err = guardOf(u.client)
	return err
}

func (u *service) guardEnd() {
	if u.guard != nil {
		u.j.l.endGuard(u.guard, u.client, dbusclient.GuardScope(u.j.rec().Identity.Nonce))
		u.guard = nil
	}
}

// endGuard ends and reaps a guard, and has its scope collected; c is nil where no
// manager was asked for one.
func (l *Launcher) endGuard(g *keeper.Guard, c *dbusclient.Client, scope string) {
	_ = g.Kill() // it is gone afterwards, or was before
	if c != nil && (g.Early() || overlooks(c.Version())) {
		collect(c, scope)
	}
}
