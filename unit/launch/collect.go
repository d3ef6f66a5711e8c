package launch

import (
	"context"
	"time"

	"github.com/unitward/unitward/dbusclient"
)

const (
	// versionCatchup is a systemd whose manager looks again at every cgroup when it
	// has executed itself anew (unit_cgroup_catchup()). Of one that has become empty
	// meanwhile the manager of systemd 247 never hears: its scope stays for good.
	versionCatchup = 252
	// collectWait bounds the attempts to have a scope collected, and collectPause is
	// between them: the manager may be away at this very moment.
	collectWait  = 2 * time.Second
	collectPause = 50 * time.Millisecond
)

// overlooks is true for a manager that may have missed the end of a scope. That it is
// away at this very moment nobody can know before it has come back, so one of such a
// systemd is always asked.
func overlooks(version int) bool { return version < versionCatchup }

// collect has the manager stop a scope of ours in which nobody is left, where it may
// not have seen that by itself: it overlooks it, or the scope was given a process that
// had ended, which leaves it empty and up on every systemd. Nobody may be in it: the
// manager would wait for his end, and could miss that again. What fails leaves a unit
// behind, without a process.
func collect(c *dbusclient.Client, scope string) {
	ctx, cancel := context.WithTimeout(context.Background(), collectWait)
	defer cancel()
	for ctx.Err() == nil && c.StopUnit(ctx, scope) != nil {
		wallClock{}.Sleep(ctx, collectPause)
	}
}

// release is collect for the scope of a job that is about to be settled, by whoever
// does that: another unit can have its name by now.
func (p *scopePlace) release(ctx context.Context) {
	if p.unit == nil || !overlooks(p.unit.Version()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, collectWait)
	defer cancel()
	for ctx.Err() == nil {
		lost, err := p.ours(ctx)
		if err != nil && !lost || err == nil && p.unit.Stop(ctx) == nil {
			return
		}
		wallClock{}.Sleep(ctx, collectPause)
	}
}
