package launch

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// sharedGuard is a guard for all services that end with this process: one scope,
// to which they are bound, instead of one for each of them. To make and drop a
// scope is half of what a manager does for a short job.
type sharedGuard struct {
	mu sync.Mutex
	// asked is true once a job has wanted a guard. The first gets one of its
	// own, made together with its unit: most processes start one job.
	asked bool
	guard *keeper.Guard
	scope string
	// client is the manager's that has the scope.
	client *dbusclient.Client
}

// guardGrace is TimeoutStopSec= of the scope, whose one process heeds SIGTERM.
const guardGrace = 10 * time.Second

// shares is true for a service that is bound to this process to its end. One
// that can be left to itself needs a guard that can.
func shares(s *unit.Spec) bool {
	return s.Lifetime == unit.LifetimeCall && s.DetachAfter == 0 && s.Leftovers != unit.LeftoversKeep
}

// sharedGuard is the one of a manager, with its scope; nil where the job is to
// have a guard of its own, which is as good.
func (l *Launcher) sharedGuard(ctx context.Context, c *dbusclient.Client, m unit.Manager) *sharedGuard {
	l.mu.Lock()
	g := l.guards[m]
	if g == nil {
		g = &sharedGuard{}
		l.guards[m] = g
	}
	l.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.asked {
		g.asked = true
		return nil
	}
	if g.guard != nil && g.guard.Ended() {
		// Somebody has stopped the scope, and all that was bound to it.
		g.drop(l)
	}
	if g.guard == nil && g.start(ctx, l, c, m) != nil {
		return nil // a start with its own guard says why
	}
	return g
}

// start makes the guard and its scope, for who holds the lock.
func (g *sharedGuard) start(ctx context.Context, l *Launcher, c *dbusclient.Client, m unit.Manager) (err error) {
	if g.guard, err = guardOf(c); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			g.drop(l)
		}
	}()
	scope := dbusclient.GuardScope(random(16))
	// As for the guard of one job: dbusclient.Service.
	apart, err := property.Convert("DefaultDependencies", "no")
	if err != nil {
		return err
	}
	g.scope, g.client = scope, c
	g.guard.Expect(scope)
	u, err := c.StartScope(ctx, dbusclient.Scope{
		Unit: scope, Description: fmt.Sprintf("guard of the jobs of %d", os.Getpid()), Slice: slice(&unit.Spec{Manager: m}),
		PID: g.guard.PID, Grace: guardGrace, Properties: apart,
	})
	g.guard.Sent()
	if u != nil {
		defer u.Close() // also where it is not known whether it is there
	}
	if err != nil {
		return err
	}
	result, err := u.ScopeStarted(ctx)
	if err == nil && result != "done" {
		err = fmt.Errorf("cannot start %s: its start job ended as %q", scope, result)
	}
	return err
}

// drop ends and reaps the guard, for who holds the lock.
func (g *sharedGuard) drop(l *Launcher) {
	l.endGuard(g.guard, g.client, g.scope)
	g.guard = nil
}

// guardOf is a guard of this process that keeps the connection to a manager up.
func guardOf(c *dbusclient.Client) (*keeper.Guard, error) {
	fd := c.Descriptor()
	if fd >= 0 {
		defer unix.Close(fd)
	}
	return keeper.GuardConnection(fd)
}

// removes is keeper.Guard.Removes.
func (g *sharedGuard) removes(files []string) (forget func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.guard == nil {
		return func() {}
	}
	return g.guard.Removes(files...)
}

func (g *sharedGuard) scopeName() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.scope
}

// ended is true for a guard to which nothing can be bound any more.
func (g *sharedGuard) ended(scope string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.scope != scope || g.guard == nil || g.guard.Ended()
}

func (g *sharedGuard) release(l *Launcher) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.guard != nil {
		g.drop(l)
	}
}

func (l *Launcher) sharedGuards() []*sharedGuard {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.guards))
}
