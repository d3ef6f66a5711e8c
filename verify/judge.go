package verify

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Manager versions that decide what counts as evidence.
const (
	// versionKeepsCgroup is the first systemd that keeps ControlGroup set
	// while processes are left in a dead unit (systemd 247, NEWS).
	versionKeepsCgroup = 247
)

// Judge turns one observation into a verdict. It never fails: what it cannot
// establish is listed in Missing.
func Judge(o Observation) Verdict {
	j := judge{o: o}
	v := Verdict{Exit: j.exit(), Tree: j.tree(), Grade: GradeNone}
	v.Confirmed = v.Exit.Known && v.Tree.Empty
	switch {
	case v.Exit.Known && j.weak():
		v.Grade = GradeWeak
	case v.Confirmed:
		v.Grade = GradeProven
	}
	if v.Confirmed {
		return v
	}
	v.Lost = j.lost(v)
	v.Missing = j.missing(v)
	v.Remedy = j.remedy(v)
	return v
}

type judge struct{ o Observation }

// believed is false when nothing that was seen is about the recorded job.
func (j judge) believed() bool {
	return j.o.Identity.State == IdentitySame && !j.replaced()
}

// replaced is true when the job's name or place belongs to something else now.
func (j judge) replaced() bool {
	u := j.o.Unit
	return j.o.Cgroup.State == CgroupReplaced ||
		u.Read && u.InvocationID != "" && j.o.InvocationID != "" && u.InvocationID != j.o.InvocationID
}

// service is true where the unit's own properties are evidence. A scope has
// no exit status and its ActiveState was wrong up to systemd 257; the other
// rungs have no unit at all.
func (j judge) service() bool { return j.o.Isolation == IsolationService }

// rung is true for an isolation that evidence is laid down for.
func (j judge) rung() bool {
	switch j.o.Isolation {
	case IsolationService, IsolationScope, IsolationCgroup, IsolationGroup:
		return true
	}
	return false
}

// known is true when the manager knows the very start that we recorded. A
// missing unit and one that a restarted manager found again have no
// InvocationID, and their other properties are defaults, not facts.
func (j judge) known() bool {
	u := j.o.Unit
	return j.service() && j.believed() && u.Read &&
		j.o.InvocationID != "" && u.InvocationID == j.o.InvocationID
}

// ours is true when, besides, what the manager says about it is evidence.
func (j judge) ours() bool { return j.known() && j.o.Unit.LoadState == "loaded" }

// unfinished is true while the manager may yet start a process in the unit
// (ExecStartPost=, ExecStopPost=, a restart) or has not looked after the last
// one. What is empty meanwhile need not stay so. It only ever withholds, and
// therefore does not ask for LoadState.
func (j judge) unfinished() bool { return j.known() && j.active() }

// active is true while the unit's state says that something of it still runs
// or is still to run. "active (exited)" is not: its main process has ended.
func (j judge) active() bool {
	u := j.o.Unit
	switch u.ActiveState {
	case "inactive", "failed":
		// dead-before-auto-restart and failed-before-auto-restart (systemd
		// 254) are states on the way to the next start.
		return strings.HasSuffix(u.SubState, "-before-auto-restart")
	case "active":
		return u.SubState != "exited"
	}
	return true
}

func (j judge) exit() Exit {
	ways := []func() (Exit, bool){j.unitExit, j.recordedExit, j.keptExit}
	if j.tended() {
		ways = []func() (Exit, bool){j.keptExit, j.tendedExit}
	}
	for _, way := range ways {
		if e, ok := way(); ok {
			return e
		}
	}
	return Exit{At: j.o.At}
}

// tendedExit is the word of the recorder or the manager on the process that
// tends the job's. When that alone was killed, the job may still run, or end in a
// way of its own: it was killed too only where all of the unit was.
func (j judge) tendedExit() (Exit, bool) {
	e, ok := j.tenderExit()
	if ok && e.Signal == sigKill && !j.killedAll() {
		return Exit{}, false
	}
	return e, ok
}

// tenderExit is how the process that tends the job's ended, whatever that says of
// the job.
func (j judge) tenderExit() (Exit, bool) {
	if e, ok := j.recordedExit(); ok {
		return e, true
	}
	return j.unitExit()
}

// killedAll is true when every process of the unit got SIGKILL: by unitward, or
// by the manager, which sends it so when the time of a stop is up.
func (j judge) killedAll() bool {
	r := j.o.Recorded
	return j.o.KilledAll || j.ours() && j.o.Unit.Result == resultTimeout ||
		r != nil && r.InvocationID == j.o.InvocationID && r.ServiceResult == resultTimeout
}

const resultTimeout = "timeout"

// untold is true for a service whose tender was killed before it could say how
// the job ended, and in which nobody is left who could.
func (j judge) untold(t Tree) bool {
	if !j.tended() || !t.Empty {
		return false
	}
	e, ok := j.tenderExit()
	return ok && e.Signal == sigKill
}

func (j judge) unitExit() (Exit, bool) {
	if !j.ours() {
		return Exit{}, false
	}
	code, status := j.o.Unit.ExecMainCode, int(j.o.Unit.ExecMainStatus)
	e := Exit{Known: true, At: j.o.At,
		Source: fmt.Sprintf("systemd ExecMainCode=%d ExecMainStatus=%d", code, status)}
	switch {
	case code == 1 && status >= 0 && status <= 255:
		e.Code = status
	// A death by signal 0 would read as a success.
	case (code == 2 || code == 3) && status >= 1 && status <= sigRTMax:
		e.Signal, e.CoreDumped = status, code == 3
	default:
		return Exit{}, false
	}
	return e, true
}

func (j judge) recordedExit() (Exit, bool) {
	r := j.o.Recorded
	if r == nil || !j.service() || j.o.InvocationID == "" || r.InvocationID != j.o.InvocationID ||
		j.o.Identity.State != IdentitySame && j.o.Identity.State != IdentityOtherBoot {
		return Exit{}, false
	}
	e := Exit{Known: true, At: r.At,
		Source: fmt.Sprintf("%s EXIT_CODE=%s EXIT_STATUS=%s", cmp.Or(oneLine(r.Source), "recorder"), r.ExitCode, r.ExitStatus)}
	switch r.ExitCode {
	case "exited":
		n, err := strconv.ParseUint(r.ExitStatus, 10, 8)
		if err != nil {
			return Exit{}, false
		}
		e.Code = int(n)
	case "killed", "dumped":
		n, ok := SignalNumber(r.ExitStatus)
		if !ok {
			return Exit{}, false
		}
		e.Signal, e.CoreDumped = n, r.ExitCode == "dumped"
	default:
		return Exit{}, false
	}
	return e, true
}

func (j judge) tree() Tree {
	t := Tree{At: j.o.At}
	if j.o.Identity.State == IdentityOtherBoot {
		t.Empty, t.Source = true, "boot id changed: "+j.detail()
		return t
	}
	if looked, said, ok := j.emptiness(); ok && !j.unfinished() {
		t.Empty, t.Source = true, looked+" "+said
		if j.o.Isolation == IsolationGroup && j.childless() && !j.o.Kept.ChildlessAt.IsZero() {
			t.At = j.o.Kept.ChildlessAt
		}
		return t
	}
	if j.populated() {
		looked, said := j.o.Cgroup.occupied()
		t.Source, t.Members = looked+" "+said, j.o.Cgroup.Members
		return t
	}
	looked, said := j.lookedForMembers()
	if j.o.Isolation == IsolationGroup && j.believed() {
		looked, said, t.Members = j.lookedAtGroup()
	}
	t.Source = looked + " " + said
	return t
}

// populated is true when a survivor was positively seen.
func (j judge) populated() bool { return j.believed() && j.o.Cgroup.State == CgroupPopulated }

// emptiness is the evidence that no process is left in the unit, as far as the
// job's isolation lets it count.
func (j judge) emptiness() (looked, said string, ok bool) {
	if !j.believed() {
		return "", "", false
	}
	// Our own read comes first: the manager's picture can be older.
	switch j.o.Cgroup.State {
	case CgroupPopulated:
		return "", "", false
	case CgroupEmpty:
		// A cgroup that we own is proven by its removal: until then whoever
		// holds its cgroup.procs open can put a process into it.
		if j.service() || j.o.Isolation == IsolationScope {
			looked, said = j.o.Cgroup.unoccupied()
			return looked, said, true
		}
	case CgroupGone:
		if j.service() || j.o.Isolation == IsolationScope || j.o.Isolation == IsolationCgroup {
			return "cgroup", "removed, its parent is there", true
		}
	}
	if j.o.Isolation == IsolationGroup {
		return j.groupEmptiness()
	}
	if !j.ours() {
		return "", "", false
	}
	switch u := j.o.Unit; {
	// The manager counts tasks only where it holds a cgroup: a 0 without one
	// is a property that nobody asked for.
	case u.ControlGroup != "" && u.TasksCurrent == 0:
		return "systemd", "TasksCurrent=0", true
	case u.ControlGroup == "" && j.reaped() && u.ManagerVersion >= versionKeepsCgroup:
		return "systemd", `ControlGroup="" after the exit`, true
	}
	return "", "", false
}

// reaped is true when the manager itself saw the main process end.
func (j judge) reaped() bool { _, ok := j.unitExit(); return ok }

// lost is true when the exit can never become known, or the record is not
// ours to judge.
func (j judge) lost(v Verdict) bool {
	switch j.o.Identity.State {
	case IdentityChanged, IdentityForeign:
		return true
	case IdentityOtherBoot:
		return !v.Exit.Known
	case IdentitySame:
		return j.replaced() || !v.Exit.Known && (j.forgotten() || j.untold(v.Tree) || j.neverReaped() || j.abandoned() || j.orphaned())
	}
	return false
}

// forgotten is true when the manager answers and no longer knows the start
// that was recorded: it dropped the unit, or died and came back without it.
// Before a start is recorded there is nothing to forget, and the exit of the
// other rungs was never the manager's.
func (j judge) forgotten() bool {
	u := j.o.Unit
	return j.service() && u.Read && u.LoadState != "" && j.o.InvocationID != "" && u.InvocationID == ""
}

// neverReaped is true when the unit came to its end and the manager does not
// have the main process's status: it no longer waits for it.
func (j judge) neverReaped() bool {
	u := j.o.Unit
	return j.ours() && !j.active() && u.ActiveState != "active" && !j.reaped()
}

// abandoned is true for a start that was cut off and of which the manager has
// no unit: whether it began is not to be learned any more.
func (j judge) abandoned() bool {
	u := j.o.Unit
	return j.service() && j.o.Abandoned && j.o.InvocationID == "" && u.Read && u.LoadState == "not-found"
}
