package launch

import (
	"context"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// backend is what holds a job's processes: how it is looked at and acted on
// in one isolation. It decides nothing: what is seen goes to package verify,
// and what is done was decided by the Job.
type backend interface {
	// observe adds what is seen to an observation.
	observe(ctx context.Context, depth dbusclient.Depth, lk *look)
	// adopt completes a record whose start was cut off, where what is there
	// is the job.
	adopt(ctx context.Context) error
	// quiet is true while nothing can have happened since the start: there is
	// nothing to look at before something changes.
	quiet() bool
	// sources are channels that tell that there is something to look at;
	// both can be nil. When emptied is closed, unwatch ends it.
	sources(lk look) (changed, emptied <-chan struct{})
	unwatch()
	// reach tries again to reach what could not be reached.
	reach(ctx context.Context)

	// actable is nil when there is something of the job to act on; lk is what
	// was just seen.
	actable(op string, lk look) error
	// terminate sends a signal to all of the job, and wakes what is stopped.
	terminate(ctx context.Context, signal int, grace time.Duration) (detail string, err error)
	// entrustable says when who is there besides this process will send SIGKILL, if
	// asked to do so after grace; entrust asks, before terminate sends its signal.
	entrustable(grace time.Duration) (time.Duration, error)
	entrust(grace time.Duration) error
	// kill ends every process of the job, whatever its user. It does not wait
	// for the proof.
	kill(ctx context.Context, lk look) (detail string)
	// signal sends a signal to a job that is known to be actable.
	signal(ctx context.Context, who unit.Who, signal int) error
	// forward is signal for the process that started the job.
	forward(ctx context.Context, who unit.Who, signal int) error
	pause(ctx context.Context) error
	resume(ctx context.Context) error

	// noteSteps adds to the record what was done to end the job by others
	// than this process.
	noteSteps(lk look)
	// release lets go of a unit whose end is proven.
	release(ctx context.Context, lk look) error
	// keep lets what is left of a job of lifetime call outlive the call.
	keep() error
	close()
}
