package launch

import (
	"context"
	"errors"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// Await is Wait for the process that started the job: where systemd's own
// clock does not run, it also holds the timeout.
func (j *Job) Await(ctx context.Context, fact Fact) (unit.Report, error) {
	if j.rec.Timeout == 0 || j.rec.StartedAt == nil || !j.clockStops() {
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

// clockStops is true where RuntimeMaxSec= ends with the main process:
// RemainAfterExit=, which stands in for ExitType=cgroup, leaves the unit in a
// state that has no timer.
func (j *Job) clockStops() bool {
	return j.rec.Leftovers == unit.LeftoversWait && !dbusclient.HasExitType(j.client.Version())
}

// Keep lets what is left of a job of lifetime call outlive the call: from now
// on its guard ends with the last of them, which releases the unit.
func (j *Job) Keep(ctx context.Context) error {
	if j.guard == nil {
		return nil
	}
	id := j.rec.Identity
	events, err := j.l.hierarchy().Recorded(id.Cgroup, id.CgroupInode).EventsPath()
	if err != nil {
		return err
	}
	guard := j.guard
	j.guard = nil
	return guard.Keep(events)
}
