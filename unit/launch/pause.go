package launch

import (
	"context"
	"errors"
	"slices"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
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

// paused is true for a job that a look has seen to be paused: its cgroup is
// frozen, or every process of a group is stopped, its own doing or another's.
func (j *Job) paused(lk look) bool {
	switch id := j.rec().Identity; {
	case id.Far != nil:
		return lk.reading.Frozen
	case id.Isolation == verify.IsolationGroup:
		isStopped := func(m verify.Member) bool { return m.State == stopped }
		return slices.ContainsFunc(lk.o.Group.Members, isStopped) && !slices.ContainsFunc(lk.o.Group.Members, runs)
	default:
		return j.frozen()
	}
}

// runs is true for a process that can do something, as far as is known. One in D
// has its STOP and can do nothing before it heeds it: for one, a shell whose vforked
// child was stopped before its exec.
func runs(m verify.Member) bool {
	switch m.State {
	case stopped, "t", "D", "Z":
		return false
	}
	return true
}

// stopped is the state of a process that a signal has stopped (proc_pid_stat(5)).
const stopped = "T"

// frozen is true for a job whose cgroup is recorded and was told to freeze.
func (j *Job) frozen() bool {
	if j.rec().Identity.CgroupInode == 0 || j.hierarchy() == nil {
		return false
	}
	frozen, err := j.group().File("cgroup.freeze")
	return err == nil && frozen == "1"
}

// freezeAlone freezes the recorded cgroup where err says that the manager freezes
// nothing, as beside cgroup v1.
func (j *Job) freezeAlone(ctx context.Context, err error) error {
	raw := j.unfrozen(err)
	if raw == nil {
		return err
	}
	defer raw.Close()
	bounded, cancel := context.WithTimeout(ctx, frozenWait)
	defer cancel()
	return raw.Freeze(bounded)
}

// thawAlone undoes freezeAlone.
func (j *Job) thawAlone(err error) error {
	raw := j.unfrozen(err)
	if raw == nil {
		return err
	}
	defer raw.Close()
	return raw.ThawAll()
}

// unfrozen is the recorded cgroup when err says that the manager freezes nothing;
// nil for another err, and where it cannot be had.
func (j *Job) unfrozen(err error) *cgroup.Unit {
	var none *unit.FreezeError
	h := j.hierarchy()
	if h == nil || !errors.As(err, &none) {
		return nil
	}
	raw, err := h.Attach(j.rec().Identity.Cgroup, j.rec().Identity.CgroupInode)
	if err != nil {
		return nil
	}
	return raw
}

// act looks at the job and does something to it when it is still the one
// that was recorded.
func (j *Job) act(ctx context.Context, op string, do func(backend) error) error {
	if err := j.started(ctx); err != nil {
		return err
	}
	if j.rec().Sealed == nil {
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
