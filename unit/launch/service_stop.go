package launch

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// terminate: StopUnit also wakes what is stopped, and starts the manager's own
// clock for SIGKILL, which runs on when we are dead; it is TimeoutStopSec=, so
// a longer grace has to do without as long as it can.
func (u *service) terminate(ctx context.Context, signal int, grace time.Duration) (string, error) {
	if grace <= u.j.rec.Grace {
		u.thaw(ctx)
		return "StopUnit", u.unit.Stop(ctx)
	}
	err := u.unit.Kill(ctx, unit.WhoAll, signal)
	u.thaw(ctx)
	if err == nil {
		err = u.unit.Kill(ctx, unit.WhoAll, int(unix.SIGCONT))
	}
	var ended *unit.EndedError
	if errors.As(err, &ended) {
		err = nil
	}
	return killedByManager, err
}

// thaw lets a paused job go on, so that it can heed the signal of a stop: one
// that does not would spend all its grace asleep. A manager of systemd 257
// refuses to stop what it has frozen ("Cannot stop frozen unit"), so it is told
// first; while it stops a unit it cannot be told, and what it leaves frozen is
// thawed by its cgroup.
func (u *service) thaw(ctx context.Context) {
	h, id := u.j.hierarchy(), u.j.rec.Identity
	if id.Far != nil {
		_ = u.unit.Thaw(ctx) // one that is not frozen stays as it is
		return
	}
	if !u.j.frozen() {
		return
	}
	if u.unit.Thaw(ctx) == nil && !u.j.frozen() {
		return
	}
	if raw, err := h.Attach(id.Cgroup, id.CgroupInode); err == nil {
		_ = raw.ThawAll() // what stays frozen is killed after the grace
		raw.Close()
	}
}

// kill ends every member, and asks the manager only where we cannot. A unit of
// the name that is not the job's is left alone; what is in the recorded cgroup is
// the job's all the same.
func (u *service) kill(ctx context.Context, lk look) string {
	asked := u.actable("stop", lk)
	var stopped error
	if asked == nil {
		// The order matters: a unit that is to stop starts nothing any more.
		stopped = u.unit.Stop(ctx)
	}
	detail, err := u.j.killMembers(ctx)
	switch {
	case err == nil && stopped != nil:
		return stopped.Error()
	case err == nil:
		return detail
	case asked != nil:
		return err.Error()
	}
	var ended *unit.EndedError
	if err := u.unit.Kill(ctx, unit.WhoAll, sigKill); err != nil && !errors.As(err, &ended) {
		return err.Error()
	}
	return killedByManager
}
