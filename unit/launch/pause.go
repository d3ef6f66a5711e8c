package launch

import (
	"context"

	"github.com/unitward/unitward/dbusclient"
)

// Pause freezes every process of the job. The errors are those of Signal.
//
// The time of a timeout goes on meanwhile. When it is up, whoever waits for the
// job thaws it, so that it can heed the stop; where nobody does, a manager
// (seen with systemd 257 and 262) lets it sleep through its grace and kills it.
func (j *Job) Pause(ctx context.Context) error {
	return j.act(ctx, "pause", func(b backend) error { return b.pause(ctx) })
}

// Resume lets a paused job go on. The errors are those of Signal.
func (j *Job) Resume(ctx context.Context) error {
	return j.act(ctx, "resume", func(b backend) error { return b.resume(ctx) })
}

// act looks at the job and does something to it when it is still the one
// that was recorded.
func (j *Job) act(ctx context.Context, op string, do func(backend) error) error {
	if err := j.started(ctx); err != nil {
		return err
	}
	if j.rec.Sealed == nil {
		if j.held != nil {
			reached, cancel := context.WithTimeout(ctx, j.patience(actWait))
			j.held.reach(reached)
			cancel()
		}
		j.observe(ctx, dbusclient.DepthVerdict)
	}
	if err := j.actable(op); err != nil {
		return err
	}
	return do(j.held)
}
