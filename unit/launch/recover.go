package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// recovered is what a look at a unit's name tells of a start that was never answered.
type recovered int

const (
	recoveredNothing recovered = iota // it has to be looked at again
	recoveredOurs                     // the unit is the one that was asked for
	recoveredNone                     // it is not there, or another's
)

// recoverStart looks a unit up whose start was never answered, until look, which keeps
// the unit that it is given, can tell whose it is. nil is ours. Where it is not, nothing
// was started (errLostRequest), or it has ended since. lost is what it returns when
// nothing can be told in lostReplyTimeout.
func recoverStart(ctx context.Context, c *dbusclient.Client, name string, lost *unit.UnknownOutcomeError, look func(context.Context, *dbusclient.Unit) recovered) error {
	ctx, cancel := context.WithTimeout(ctx, lostReplyTimeout)
	defer cancel()
	overtaken := now().Add(bridgedWait)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if found, err := c.Open(ctx, name); err == nil {
			switch look(ctx, found) {
			case recoveredOurs:
				return nil
			case recoveredNone:
				if c.Bridged() && now().Before(overtaken) {
					break // this answer can have overtaken the request
				}
				// It answers, after the connection was made anew: a request
				// that was still under way has been carried out by now.
				return fmt.Errorf("cannot start %s: the request was lost (%w)", name, errLostRequest)
			}
		}
		select {
		case <-ctx.Done():
			return lost
		case <-time.After(pause):
		}
	}
}

var (
	errLostRequest = errors.New("the manager never got it")
	errEndedUnseen = errors.New("it was, and the job has ended before anybody could look: its outcome is unknown")
)
