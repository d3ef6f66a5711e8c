package launch

import (
	"context"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Glance is Look for a list of many: a job that is seen to run, in the
// recorded cgroup and by its recorded main process, is reported without asking
// its manager. The errors are those of Open and Look.
func (l *Launcher) Glance(ctx context.Context, name string) (unit.Report, error) {
	entry, rec, err := l.store.Load(name)
	if err != nil {
		return unit.Report{}, err
	}
	j := &Job{l: l, rec: rec, entry: entry}
	if rec.Sealed != nil {
		entry.Close()
		return *rec.Sealed, nil
	}
	if rep, ok := j.seenRunning(); ok {
		entry.Close()
		return rep, nil
	}
	entry.Close()
	if j, err = l.Open(ctx, name); err != nil {
		return unit.Report{}, err
	}
	defer j.Close()
	return j.Look(ctx)
}

// seenRunning is true for a job whose main process and cgroup are seen to be
// the recorded ones, and to live.
func (j *Job) seenRunning() (unit.Report, bool) {
	id := j.rec.Identity
	begun := id.PID != 0 && id.StartTime != 0
	if !begun || id.CgroupInode == 0 || j.l.hierarchy() == nil || id.Isolation == verify.IsolationGroup || j.identity().State != verify.IdentitySame ||
		gone(unit.Process{PID: id.PID, StartTime: id.StartTime}) {
		return unit.Report{}, false
	}
	o := verify.Observation{
		Name: j.rec.Name, Isolation: id.Isolation, InvocationID: id.InvocationID, Nonce: id.Nonce,
		At: now(), Identity: j.identity(), Stopping: j.rec.Stop.RequestedAt != nil,
	}
	o.Unit.TasksCurrent = verify.TasksUnset
	if o.Cgroup = j.group().Glance(); o.Cgroup.State != verify.CgroupPopulated {
		return unit.Report{}, false
	}
	return j.rec.Report(o, verify.Judge(o)), true
}

// Orphan reports whether a job's owner, or the process that started it, is
// gone.
func Orphan(rec *unit.Record) bool {
	if rec.Lifetime == unit.LifetimeOwner {
		return gone(rec.OwnerProcess)
	}
	return gone(rec.Launcher)
}
