package launch

import (
	"time"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// SeekLeft has what follows search for processes that carry the job's mark in
// another unit, for Report.LeftUnit. It goes through all processes of the
// host, which a look at many jobs, or a short one, can do without. It may be
// called at any time.
func (j *Job) SeekLeft() { j.seek.Store(true) }

// leftUnit lists processes that are seen to have left the job's unit. An owned
// group is all that descends from it, wherever that is.
func (j *Job) leftUnit() []verify.Member {
	id := j.rec().Identity
	if id.Isolation == verify.IsolationGroup || id.Cgroup == "" || id.StartTime == 0 || j.identity().State != verify.IdentitySame {
		return nil
	}
	if k, ok := j.held.(*kept); ok && k.reaper != nil {
		select {
		case <-k.reaper.Childless():
			return nil
		default:
			return outside(k.reaper.PID(), id.Cgroup)
		}
	}
	if !j.seek.Load() {
		return nil
	}
	return proc.Root.Left(proc.Mark{Assignment: unit.JobVariable + "=" + j.rec().Name, Since: id.StartTime, Cgroup: id.Cgroup, PID: id.PID}, seekWithin)
}

// seekWithin bounds the search for what left a unit. It is enough for some
// hundreds of processes, and nobody waits for it for long where there are
// thousands.
const seekWithin = 20 * time.Millisecond

// outside are the descendants of a reaper that are not in a cgroup.
func outside(reaper int, cgroup string) []verify.Member {
	below, _ := keeper.Descendants(reaper) // who cannot be listed is not seen
	var out []verify.Member
	for _, p := range below {
		if m, ok := proc.Root.Outside(p.PID, cgroup); ok {
			out = append(out, m)
		}
	}
	return out
}
