package launch

import (
	"context"
	"time"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// Sight is what Glance sees of a job.
type Sight struct {
	Record *unit.Record
	Report unit.Report
	// Foreign says whose record it is, when it is not ours; else empty.
	Foreign string
}

// Glance is Look for a list of many: a job that is seen to run is reported
// without asking its manager, or for its members. It returns nil for a job whose record is not wanted, which is
// not looked at. The errors are those of Open and Look; Look's come with what
// was seen nevertheless, if anything was.
func (l *Launcher) Glance(ctx context.Context, name string, wanted func(*unit.Record) bool) (*Sight, error) {
	entry, rec, err := l.store.Load(name)
	if err != nil {
		return nil, err
	}
	j := newJob(l, rec, entry)
	if !wanted(rec) {
		entry.Close()
		return nil, nil
	}
	if rep, ok := j.seenRunning(); ok {
		entry.Close()
		return &Sight{Record: rec, Report: rep}, nil
	}
	entry.Close()
	if j, err = l.Open(ctx, name); err != nil {
		return nil, err
	}
	defer j.Close()
	rep, err := j.Look(ctx)
	if rep.Schema == "" {
		return nil, err
	}
	return &Sight{Record: j.rec(), Report: rep, Foreign: j.Foreign()}, err
}

// Load is what a job uses now; nil is not known.
type Load struct {
	CPUNanoseconds, MemoryBytes, Tasks *uint64
	// OutputAt is when the latest output came; zero when none did, or it is not
	// captured.
	OutputAt time.Time
}

// Load reads what a job uses now, as its cgroup, or its processes where it has
// none, and its captured output tell.
func (l *Launcher) Load(rec *unit.Record) Load {
	var load Load
	if h, id := l.hierarchy(), rec.Identity; id.Isolation == verify.IsolationGroup {
		load = l.groupLoad(rec)
	} else if h != nil && id.CgroupInode != 0 {
		use := h.Recorded(id.Cgroup, id.CgroupInode).Use()
		load.CPUNanoseconds, load.MemoryBytes, load.Tasks = use.CPUNanoseconds, use.MemoryBytes, use.Tasks
	}
	if rec.Output == unit.OutputCapture {
		if e, _, err := l.store.Load(rec.Name); err == nil {
			load.OutputAt = e.OutputAt()
			e.Close()
		}
	}
	return load
}

// groupLoad adds up what the processes of an owned group use, which are all that
// descends from its reaper. What is shared between them counts as often.
func (l *Launcher) groupLoad(rec *unit.Record) Load {
	j := newJob(l, rec, nil)
	if j.identity().State != verify.IdentitySame || Ended(rec.Reaper) {
		return Load{}
	}
	var ticks, memory, tasks uint64
	// The reaper has waited for those that have ended.
	if s, err := proc.Root.Stat(rec.Reaper.PID); err == nil {
		ticks = s.CPU
	}
	place := &groupPlace{k: &kept{j: j}}
	for _, d := range place.descendants() {
		p, err := proc.Root.Open(d.PID)
		if err != nil {
			continue
		}
		if s, err := p.Stat(); err == nil && s.StartTime == d.StartTime && !s.Ended() {
			ticks, tasks, memory = ticks+s.CPU, tasks+uint64(max(s.Threads, 0)), memory+uint64(p.Resident())
		}
		p.Close()
	}
	cpu := uint64(proc.Ticks(ticks))
	return Load{CPUNanoseconds: &cpu, MemoryBytes: &memory, Tasks: &tasks}
}

// seenRunning is true for a job whose main process is seen to be the recorded
// one, in the recorded cgroup where it has one, and to live, as does who stays
// with it.
func (j *Job) seenRunning() (unit.Report, bool) {
	rec, id := j.rec(), j.rec().Identity
	if id.PID == 0 || id.StartTime == 0 || j.identity().State != verify.IdentitySame ||
		Ended(unit.Process{PID: id.PID, StartTime: id.StartTime}) {
		return unit.Report{}, false
	}
	if id.Isolation != verify.IsolationService && Ended(rec.Keeper) && Ended(rec.Reaper) {
		return unit.Report{}, false // its exit will be lost
	}
	o := verify.Observation{
		Name: rec.Name, Isolation: id.Isolation, InvocationID: id.InvocationID, Nonce: id.Nonce,
		At: now(), Identity: j.identity(), Stopping: rec.Stop.RequestedAt != nil,
	}
	o.Unit.TasksCurrent = verify.TasksUnset
	switch {
	case id.Isolation == verify.IsolationGroup:
		main, alive := describeProcess(keeper.Process{PID: id.PID, StartTime: id.StartTime})
		if !alive || id.PIDNamespace != pidNamespace() || main.State == "D" {
			return unit.Report{}, false // or not known: it may wait for one that is paused
		}
		o.Group = verify.Group{State: verify.GroupPopulated, PGID: id.PID, Members: []verify.Member{main}}
	case id.CgroupInode == 0, j.hierarchy() == nil:
		return unit.Report{}, false
	default:
		if o.Cgroup = j.group().Glance(); o.Cgroup.State != verify.CgroupPopulated {
			return unit.Report{}, false
		}
	}
	rep := rec.Report(o, verify.Judge(o))
	rep.Paused = rep.State == unit.StateRunning && j.paused(look{o: o})
	return rep, true
}

// Orphan reports whether a job's owner, or the process that started it, is
// gone.
func Orphan(rec *unit.Record) bool {
	if rec.Lifetime == unit.LifetimeOwner {
		return OwnerGone(rec)
	}
	return pidsHold(rec) && Ended(rec.Launcher)
}

// Filter selects jobs.
type Filter struct {
	// Owner is the label of the jobs' owner; empty is any.
	Owner string
	// All includes settled jobs; else there are live ones alone.
	All bool
	// Orphans is live jobs alone whose owner or launcher is gone.
	Orphans bool
}

// Wants is true for a job that is to be looked at.
func (f Filter) Wants(rec *unit.Record) bool {
	switch {
	case f.Owner != "" && rec.Owner != f.Owner:
		return false
	case f.Orphans:
		return rec.Sealed == nil && Orphan(rec)
	}
	return f.All || rec.Sealed == nil
}

// Shows is true for one that is to be shown: an orphan may have ended, as a look at
// it has just proved.
func (f Filter) Shows(seen *Sight) bool {
	return !f.Orphans || seen.Report.State != unit.StateSettled
}
