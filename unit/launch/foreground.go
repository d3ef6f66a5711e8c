package launch

import (
	"context"
	"errors"

	"github.com/unitward/unitward/unit"
)

// Await is Wait for the process that started the job: where systemd's own
// clock does not run, it also holds the timeout.
func (j *Job) Await(ctx context.Context, fact Fact) (unit.Report, error) {
	s, ok := j.held.(*service)
	if !ok || j.rec.Timeout == 0 || j.rec.StartedAt == nil || !s.clockStops() {
		return j.Wait(ctx, fact)
	}
	waited, cancel := context.WithDeadline(ctx, j.rec.StartedAt.Add(j.rec.Timeout))
	defer cancel()
	rep, err := j.Wait(waited, fact)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return j.stop(ctx, j.rec.Grace, byTimeout)
	}
	return rep, err
}

// Keep lets what is left of a job of lifetime call outlive the call.
func (j *Job) Keep() error { return j.held.keep() }
