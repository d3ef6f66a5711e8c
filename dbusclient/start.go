package dbusclient

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/unit"
)

// StartService asks the manager for the service and waits until its start job
// is done. It returns the unit also when the job failed: what became of the
// command is for the caller to read.
//
// The error is a *unit.UnknownOutcomeError when no reply came (look the unit
// up, never send again), else it says why nothing was started:
// *unit.UnitExistsError, *unit.AccessError, *unit.PropertyError or
// *unit.NoManagerError.
func (c *Client) StartService(ctx context.Context, s Service) (*Unit, error) {
	u := c.unit(s.Unit)
	l, ref := c.claim(u)
	props, auxes := s.properties(l, ref)
	return c.start(ctx, l, u, request{ref, s.JobMode, props, auxes, s.Sending, s.Sent})
}

// Started waits until the start job of StartService is done and returns its
// result, such as "done" or "failed"; "" when it is not known because the
// connection was lost. It ends early with ctx's error. The error is a
// *unit.UnknownOutcomeError when the manager no longer knows the unit.
//
// Below systemd 256 a command that ends very fast can make its own start job
// "failed", so the result alone says nothing about the command.
func (u *Unit) Started(ctx context.Context) (string, error) {
	return u.started(ctx, func(ctx context.Context) (r Reading, begun bool) {
		r = u.Read(ctx, DepthAll)
		// What goes before the command failed, and is being ended: the start job
		// goes on until it has.
		failing := r.MainPID == 0 && r.ActiveState == "deactivating"
		return r, !failing && (r.MainPID != 0 || r.InvocationID != "")
	})
}

// started is Started where read tells, of a unit that is past its start, that it
// has begun.
func (u *Unit) started(ctx context.Context, read func(context.Context) (r Reading, begun bool)) (string, error) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		if r, ok := u.follower.result(u.job); ok && u.job != "" {
			return r, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-u.follower.wake:
			continue
		case <-tick.C:
		}
		// JobRemoved is lost for good with the connection; the unit itself
		// then tells whether it is past its start.
		r, begun := read(ctx)
		if res, ok := u.follower.result(u.job); ok && u.job != "" {
			return res, nil
		}
		switch {
		case !r.Read || r.ActiveState == "activating":
		case begun:
			return "", nil
		case r.LoadState == "not-found":
			return "", &unit.UnknownOutcomeError{Op: "the start of " + u.name, Err: errForgotten}
		}
	}
}

// errForgotten says that a unit which was being started is not known any more.
var errForgotten = errors.New("the manager took it and no longer knows the unit: it was restarted, or the unit ended while it could not be reached")

// tickEvery bounds how long a lost signal can go unnoticed.
const tickEvery = time.Second
