package verify

import (
	"context"
	"time"
)

// Clock is the time that Recheck lives by; tests inject their own.
type Clock interface {
	// Now is the present.
	Now() time.Time
	// Sleep returns after d or when ctx is done, whichever is first.
	Sleep(ctx context.Context, d time.Duration)
}

// The bounds of Recheck. Both hold: no look begins after RecheckWithin, and
// there are never more than RecheckTries.
const (
	RecheckWithin = 2 * time.Second
	RecheckTries  = 21
	// QueryTimeout is what one look may take; its context ends then.
	QueryTimeout = 100 * time.Millisecond

	firstPause = 5 * time.Millisecond
	maxPause   = 125 * time.Millisecond
)

// Recheck looks again until the job is confirmed, nothing can be gained by
// looking (Verdict.Lost), a survivor is positively seen, the bounds are spent
// or ctx is done, and returns the last verdict. look is called at least once;
// it must return when its context is done.
//
// A count of tasks by the manager is no sighting of a survivor: it includes
// zombies, which are reaped a moment later.
func Recheck(ctx context.Context, clock Clock, look func(context.Context) Observation) Verdict {
	// The last look is planned so that it, too, can end within the bound.
	const lastLook = RecheckWithin - QueryTimeout
	began, pause := clock.Now(), firstPause
	for try := 1; ; try++ {
		query, cancel := context.WithTimeout(ctx, QueryTimeout)
		o := look(query)
		cancel()
		v := Judge(o)
		if v.Confirmed || v.Lost || o.Survivor() || try == RecheckTries || ctx.Err() != nil {
			return v
		}
		left := lastLook - clock.Now().Sub(began)
		if left <= 0 {
			return v
		}
		clock.Sleep(ctx, min(pause, left))
		// A sleep can last longer than it was asked to (a suspended host, a
		// clock that jumps), and a look under a dead context sees nothing.
		if ctx.Err() != nil || clock.Now().Sub(began) > RecheckWithin {
			return v
		}
		pause = min(2*pause, maxPause)
	}
}
