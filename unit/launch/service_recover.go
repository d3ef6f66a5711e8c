package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// recover looks a unit up whose start was never answered. It is ours when it
// carries our nonce; when there is none, nothing was started.
func (u *service) recover(ctx context.Context, lost *unit.UnknownOutcomeError, h *handed) error {
	ctx, cancel := context.WithTimeout(ctx, lostReplyTimeout)
	defer cancel()
	overtaken := now().Add(bridgedWait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		found, err := u.client.Open(ctx, u.j.rec().Identity.Unit)
		if err == nil {
			if u.unit != nil {
				u.unit.Close()
			}
			u.unit = found
			r := found.Read(ctx, dbusclient.DepthAll)
			ours, cerr := found.Carries(ctx, u.j.rec().Identity.Nonce)
			switch {
			case cerr == nil && r.Read && r.LoadState == "loaded" && ours:
				return nil
			case cerr == nil && r.Read && u.client.Bridged() && now().Before(overtaken):
				// This answer can have overtaken the request.
			case cerr == nil && r.Read && u.carriedOut(ctx, h):
				return &unit.UnknownOutcomeError{Op: lost.Op, Err: errEndedUnseen}
			case cerr == nil && r.Read:
				// It answers, after the connection was made anew: a request
				// that was still under way has been carried out by now.
				return fmt.Errorf("cannot start %s: the request was lost (%w)", u.j.rec().Identity.Unit, errLostRequest)
			}
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

var (
	errLostRequest = errors.New("the manager never got it")
	errEndedUnseen = errors.New("it was, and the job has ended before anybody could look: its outcome is unknown")
)
