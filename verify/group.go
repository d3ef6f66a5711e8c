package verify

import "fmt"

// GroupState is what a look at the job's process group said.
type GroupState int

const (
	// GroupUnread is the zero value: no group is recorded or nobody looked.
	GroupUnread GroupState = iota
	// GroupPopulated means that members of the group or its session were
	// seen, or that signal 0 to the group succeeded (which a zombie is enough
	// for).
	GroupPopulated
	// GroupForeign means that signal 0 returned EPERM: there are members,
	// and none that we may signal (kill(2)).
	GroupForeign
	// GroupGone means that signal 0 returned ESRCH, or that the number is
	// another group's by now, and no member of the session was seen. A
	// process that made its own session is in neither.
	GroupGone
	// GroupUnavailable means that it could not be looked at; Err says why.
	GroupUnavailable
)

// ScanState is how far the search for processes with the job's marker came.
type ScanState int

const (
	// ScanNone is the zero value: nobody searched.
	ScanNone ScanState = iota
	// ScanComplete means every process was looked at that could be of the
	// job. It is no proof: a process can drop the marker (env -i).
	ScanComplete
	// ScanIncomplete means the search came to a bound or could not see every
	// process; Scan.Err says which.
	ScanIncomplete
)

// Group is one look at the process group that a job of the rung group owns.
type Group struct {
	State GroupState
	// PGID is the group's number, which is its session's too. A look at 0 or
	// 1 is no look at a job's group.
	PGID int
	// Err says why State is GroupUnavailable.
	Err string
	// Members are the processes seen in the group or its session. Zombies
	// are among them, with State "Z".
	Members []Member
	// Scan is the search for processes that left both.
	Scan Scan
}

// Scan is a search of /proc for processes that carry the job's marker.
type Scan struct {
	State ScanState
	// Err says why State is ScanIncomplete.
	Err string
	// Members are the processes found by the marker.
	Members []Member
	// Unreadable are processes that may carry it: their environment could not
	// be read and nothing else excludes them. They are unknown, never absent.
	Unreadable []Member
}

// looked is the state of the look, if it was one at a job's group.
func (g Group) looked() GroupState {
	if g.PGID <= 1 {
		return GroupUnread
	}
	return g.State
}

// weak is true for the only evidence that is left of a group once its keeper
// is dead. While it lives nothing but its own word counts: a process in a
// session of its own and without the marker is seen by nobody else.
func (j judge) weak() bool {
	g := j.o.Group
	return j.o.Isolation == IsolationGroup && j.believed() && j.o.KeeperGone && !j.childless() && j.o.Cgroup.State != CgroupPopulated &&
		g.looked() == GroupGone && g.Scan.State == ScanComplete && len(g.Members)+len(g.Scan.Members)+len(g.Scan.Unreadable) == 0
}

const foundNone = "returned ESRCH, and a complete scan found no process of the job, which is weak evidence: a process can evade it"

func (g Group) signal() string { return fmt.Sprintf("signal 0 to group %d", g.PGID) }

// groupEmptiness is the evidence that an owned group has no process left.
func (j judge) groupEmptiness() (looked, said string, ok bool) {
	switch {
	case j.childless():
		return j.o.Kept.source(), "returned ECHILD: no descendant is left", true
	case j.o.AcceptWeak && j.weak():
		return j.o.Group.signal(), foundNone, true
	}
	return "", "", false
}

// lookedAtGroup is what was seen instead of that evidence, survivors first.
func (j judge) lookedAtGroup() (looked, said string, seen []Member) {
	g, state := j.o.Group, j.o.Group.looked()
	switch {
	case state == GroupForeign:
		return g.signal(), "returned EPERM", g.Members
	case state == GroupPopulated && len(g.Members) == 0:
		return g.signal(), "succeeded", nil
	case state != GroupUnread && len(g.Members) > 0:
		return fmt.Sprintf("group and session %d", g.PGID), "populated", g.Members
	case len(g.Scan.Members) > 0:
		return "marker scan", "found", g.Scan.Members
	case !j.o.KeeperGone:
		return "keeper", "it has not written down that no child is left", nil
	case state == GroupUnavailable:
		return g.signal(), orNotRead(g.Err), nil
	case state == GroupUnread:
		return "process group", "not looked at", nil
	case g.Scan.State == ScanNone:
		return "marker scan", "not made", nil
	case g.Scan.State != ScanComplete:
		return "marker scan", "incomplete: " + orNotRead(g.Scan.Err), nil
	case len(g.Scan.Unreadable) > 0:
		return "marker scan", "could not read" + members(g.Scan.Unreadable), nil
	}
	return g.signal(), foundNone, nil
}

// groupSeen is true when processes of a group were seen. Those of other users
// count: signal 0 speaks of members that it may not reach.
func (j judge) groupSeen() bool {
	if j.o.Isolation != IsolationGroup || !j.believed() {
		return false
	}
	_, _, seen := j.lookedAtGroup()
	s := j.o.Group.looked()
	return len(seen) > 0 || s == GroupPopulated || s == GroupForeign
}

// zombies is true when all that was seen of a group has ended and only waits
// to be reaped: no signal changes that.
func (j judge) zombies() bool {
	_, _, seen := j.lookedAtGroup()
	for _, m := range seen {
		if m.State != "Z" {
			return false
		}
	}
	return len(seen) > 0
}

// remedyForGroup is for a known exit without proof of an empty group, or with
// an exit that is lost.
func (j judge) remedyForGroup() string {
	g := j.o.Group
	switch {
	case j.weak():
		return "only weak evidence says that no process is left; accept it with: " + j.command("verify") + " --accept-weak"
	case j.groupSeen() && j.zombies():
		return "what is left has ended and waits for its parent to reap it; after that, run: " + j.command("verify")
	case g.looked() == GroupForeign:
		return fmt.Sprintf("group %d has processes of another user, which only that user and root can end (kill -KILL -- -%d); after that, run: %s",
			g.PGID, g.PGID, j.command("verify"))
	case j.o.KeeperGone && g.looked() == GroupGone && len(g.Members) == 0 && len(g.Scan.Members) > 0:
		// A mark authorises nothing: anybody can write it.
		return fmt.Sprintf("only its mark says that process %d is of the job, in a session of its own; if it is, end it with: kill %d; after that, run: %s",
			g.Scan.Members[0].PID, g.Scan.Members[0].PID, j.command("verify"))
	case j.groupSeen():
		return "processes are left; end them with: " + j.command("stop")
	case !j.o.KeeperGone:
		return "the keeper has not seen the last process end; await it with: " + j.command("wait")
	case g.Scan.State == ScanIncomplete:
		return "the scan for processes of the job was not complete; run: " + j.command("verify")
	case len(g.Scan.Unreadable) > 0:
		return fmt.Sprintf("process %d cannot be read and may be of the job; when it has ended, run: %s", g.Scan.Unreadable[0].PID, j.command("verify"))
	}
	return "nothing says whether processes are left; run: " + j.command("verify")
}
