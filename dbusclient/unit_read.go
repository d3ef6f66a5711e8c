package dbusclient

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/unitward/unitward/verify"
)

// Reading is one reading of a unit.
type Reading struct {
	verify.Unit
	// MainPID is the last main process, running or not; 0 when there was
	// none. Only DepthAll reads it.
	MainPID int
	// Slice is the slice that the unit is in; empty when it is not loaded. Only
	// DepthAll and ReadEnded read it.
	Slice string
	// HandoffAt is when the command was executed (systemd 256); zero when it
	// was not, or is not known. Only DepthAll reads it.
	HandoffAt time.Time
	// CPUUsage and MemoryPeak are nil where the manager does not count.
	CPUUsage, MemoryPeak *uint64
	// Frozen is true for a unit elsewhere whose processes its manager has
	// frozen. Only DepthAll reads it.
	Frozen bool
	// Absent is true when nothing could be read because the manager is not
	// there, rather than slow: the connection broke, or nobody has its name.
	Absent bool
	// Told is the end that the manager signalled; nil when it did not. It is
	// of the start that it names, which need not be the one that was read.
	Told *End
}

// Depth says how much of a unit to read.
type Depth int

const (
	// DepthVerdict is what a verdict on an end rests on. Result and dates,
	// which only colour it, come from the signals where those told of them.
	DepthVerdict Depth = iota
	// DepthAll is everything in Reading.
	DepthAll
)

// Read reads what the manager knows of the unit now. All questions go out
// before the first answer is awaited. An error is in Reading.Err.
func (u *Unit) Read(ctx context.Context, depth Depth) Reading {
	version := u.c.Version()
	r := Reading{Unit: verify.Unit{ManagerVersion: version, TasksCurrent: verify.TasksUnset}}
	var invocation []byte
	var pid uint32
	cpu, peak := unset, unset
	dates, result := u.follower.told()
	r.Result = result
	var handoff uint64
	var freezer string
	questions := []question{
		{sdUnit, "LoadState", &r.LoadState, false},
		{sdUnit, "ActiveState", &r.ActiveState, false},
		{sdUnit, "SubState", &r.SubState, false},
		{sdSvc, "ExecMainCode", &r.ExecMainCode, false},
		{sdSvc, "ExecMainStatus", &r.ExecMainStatus, false},
		{sdSvc, "ControlGroup", &r.ControlGroup, false},
		{sdSvc, "CPUUsageNSec", &cpu, true},
	}
	if version >= versionMemoryPeak {
		questions = append(questions, question{sdSvc, "MemoryPeak", &peak, true})
	}
	if depth == DepthAll || dates.inactive == 0 || result == "" {
		questions = append(questions,
			question{sdSvc, "Result", &r.Result, false},
			question{sdUnit, "InactiveEnterTimestamp", &dates.inactive, false},
			question{sdSvc, "ExecMainStartTimestamp", &dates.start, false},
			question{sdSvc, "ExecMainExitTimestamp", &dates.exit, false})
	}
	if depth == DepthAll {
		questions = append(questions,
			question{sdSvc, "TasksCurrent", &r.TasksCurrent, false},
			question{sdSvc, "Slice", &r.Slice, false},
			question{sdSvc, "ExecMainPID", &pid, false},
			question{sdSvc, "ExecMainHandoffTimestamp", &handoff, true})
		if u.c.env.Bridge != nil {
			questions = append(questions, question{sdUnit, "FreezerState", &freezer, true}) // systemd 246
		}
	}
	// Last: should the unit be unloaded meanwhile, the defaults that were read
	// of it do not come with its identity.
	questions = append(questions, question{sdUnit, "InvocationID", &invocation, false})
	if err := u.ask(ctx, questions); err != nil {
		r.Err, r.Absent = err.Error(), Absent(err)
	}
	r.Unit.Read = r.Err == "" //nolint:staticcheck // Read is a method's name too
	r.InvocationID = hex.EncodeToString(invocation)
	if r.InvocationID == "" {
		// What the manager says of a unit that it has unloaded are defaults.
		if told, result := u.follower.told(); told.inactive != 0 {
			dates, r.Result = told, result
		}
	}
	r.MainPID = int(pid)
	r.Told, r.Frozen = u.follower.ended(), freezer == "frozen"
	r.MainStartAt, r.MainExitAt, r.InactiveEnterAt, r.HandoffAt = wall(dates.start), wall(dates.exit), wall(dates.inactive), wall(handoff)
	if cpu != unset {
		r.CPUUsage = &cpu
	}
	if peak != unset {
		r.MemoryPeak = &peak
	}
	return r
}

// endWait is how long ReadEnded waits for the end of a unit whose main process
// has ended: nearly always the manager signals the one right after the other
// (0.1 to 0.5 ms), and to read the unit in between would take longer.
const endWait = 5 * time.Millisecond

// ReadEnded is Read of DepthVerdict for a unit that has come to its end, as the
// manager signalled it: what its signals carry is what the same properties read
// at that moment, and only what they do not carry is asked for. It waits a few
// milliseconds for a unit that has begun to end. ok is false for one of which the
// signals told no end. ControlGroup is left empty: whether a process is left has
// to be seen elsewhere.
func (u *Unit) ReadEnded(ctx context.Context) (r Reading, ok bool) {
	end := u.follower.awaitEnd(ctx, endWait)
	if end == nil {
		return Reading{}, false
	}
	r = Reading{Told: end}
	cpu, peak := unset, unset
	questions := []question{{sdSvc, "CPUUsageNSec", &cpu, true}, {sdSvc, "Slice", &r.Slice, false}}
	r.ManagerVersion = u.c.Version()
	if r.ManagerVersion >= versionMemoryPeak {
		questions = append(questions, question{sdSvc, "MemoryPeak", &peak, true})
	}
	if u.ask(ctx, questions) != nil {
		return Reading{}, false
	}
	r.Unit.Read = true //nolint:staticcheck // Read is a method's name too
	r.TasksCurrent, r.LoadState = verify.TasksUnset, "loaded"
	r.ActiveState, r.SubState, r.Result = end.ActiveState, end.SubState, end.Result
	r.ExecMainCode, r.ExecMainStatus, r.InvocationID = end.Code, end.Status, end.InvocationID
	dates, _ := u.follower.told()
	r.MainStartAt, r.MainExitAt, r.InactiveEnterAt = wall(dates.start), wall(dates.exit), wall(dates.inactive)
	if cpu != unset {
		r.CPUUsage = &cpu
	}
	if peak != unset {
		r.MemoryPeak = &peak
	}
	return r, true
}

// ReadStarted is Read of everything for a unit that was just started. Where it
// has been unloaded already, what signals told of it stands in for the main
// process and the InvocationID; the InvocationID is empty when they did not.
func (u *Unit) ReadStarted(ctx context.Context) Reading {
	r := u.Read(ctx, DepthAll)
	if !r.Read || r.LoadState == "loaded" {
		return r
	}
	u.follower.overlay(&r)
	return r
}

// versionMemoryPeak is the first systemd with MemoryPeak (NEWS 255).
const versionMemoryPeak = 255

// unset is systemd's "[not set]" for counters.
const unset = ^uint64(0)

func wall(usec uint64) time.Time {
	if usec == 0 || usec == unset {
		return time.Time{}
	}
	return time.UnixMicro(int64(usec))
}
