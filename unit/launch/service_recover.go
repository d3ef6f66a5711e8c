package launch

import (
	"context"
	"errors"
	"os"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// recover looks the unit up when its start was never answered. It is ours when it
// carries our nonce.
func (u *service) recover(ctx context.Context, lost *unit.UnknownOutcomeError, h *handed) error {
	id := u.j.rec().Identity
	err := recoverStart(ctx, u.client, id.Unit, lost, func(ctx context.Context, found *dbusclient.Unit) recovered {
		if u.unit != nil {
			u.unit.Close()
		}
		u.unit = found
		r := found.Read(ctx, dbusclient.DepthAll)
		ours, err := found.Carries(ctx, id.Nonce)
		switch {
		case err != nil || !r.Read:
			return recoveredNothing
		case r.LoadState == "loaded" && ours:
			return recoveredOurs
		}
		return recoveredNone
	})
	if errors.Is(err, errLostRequest) && u.carriedOut(ctx, h) {
		return &unit.UnknownOutcomeError{Op: lost.Op, Err: errEndedUnseen}
	}
	return err
}

// carriedOut tells, of a unit that is not there, one that has come and gone
// from one that never was. It left traces: its guard's scope, which lasts as
// long as the guard; a handover that was taken; the word of its recorder.
func (u *service) carriedOut(ctx context.Context, h *handed) bool {
	if u.shared {
		return true // its guard's scope is there in any case: it is not known
	}
	if u.guard != nil {
		loaded, err := u.client.Loaded(ctx, dbusclient.GuardScope(u.j.rec().Identity.Nonce))
		if err != nil || loaded {
			return true // or not known
		}
	}
	if u.j.rec().Identity.Far != nil {
		loaded, err := u.client.Loaded(ctx, dbusclient.HoldSlice(u.j.rec().Identity.Nonce))
		return err != nil || loaded
	}
	if h.await != nil {
		if _, err := os.Lstat(h.files[0]); err != nil {
			return true
		}
	}
	recorded, err := u.j.entry.Recorded()
	return recorded != nil || err != nil
}
