package verify

import (
	"context"
	"testing"
)

var (
	zombie  = Member{PID: 4711, Command: "[sh]", State: "Z"}
	another = Member{PID: 4713, Command: "ssh-agent", State: "S"}
)

// goneGroup is the look that is as good as one can be: nothing found.
func goneGroup() Group {
	return Group{State: GroupGone, PGID: 4711, Scan: Scan{State: ScanComplete}}
}

func (g Group) having(ms ...Member) Group {
	g.Members = ms
	return g
}

func (g Group) scanned(s ScanState, err string, found, unreadable []Member) Group {
	g.Scan = Scan{State: s, Err: err, Members: found, Unreadable: unreadable}
	return g
}

func group(s GroupState) Group { return Group{State: s, PGID: 4711} }

// An owned process group: the keeper's word while it lives, and after its
// death weak evidence at most.
func TestGroupRows(t *testing.T) {
	const signal = "signal 0 to group 4711"
	ended := keptJob(IsolationGroup).exited(0, 0)
	dead := ended.orphaned()
	weakly := func(o Observation) Observation {
		o.AcceptWeak = true
		return o
	}
	untold := notEmpty("keeper", "it has not written down that no child is left")
	left := func(name string, o Observation, said Missing, remedy string) row {
		return row{name: name, o: o, exit: "exited 0", source: "keeper wait", tree: said.Looked, grade: GradeNone, missing: []Missing{said}, remedy: remedy}
	}
	proven := func(name string, o Observation) row {
		return row{name: name, o: o, exit: "exited 0", source: "keeper wait", empty: true, tree: "keeper wait returned ECHILD: no descendant is left", confirmed: true, grade: GradeProven}
	}
	lost := func(name string, o Observation, said Missing, remedy string) row {
		return row{name: name, o: o, tree: said.Looked, grade: GradeNone, lost: true, missing: []Missing{noExit("keeper", died), said}, remedy: remedy}
	}
	weak := notEmpty(signal, "returned ESRCH, and a complete scan found no process of the job, which is weak evidence: a process can evade it")
	stop, wait, again := "end them with: unitward stop "+jobName, "the keeper has not seen the last process end; await it with: unitward wait "+jobName, "run: unitward verify "+jobName
	accept := "only weak evidence says that no process is left; accept it with: unitward verify " + jobName + " --accept-weak"
	foreign := "group 4711 has processes of another user, which only that user and root can end (kill -KILL -- -4711); after that, " + again
	nothing := "nothing says whether processes are left; " + again
	complete := func(found, unreadable []Member) Group {
		return goneGroup().scanned(ScanComplete, "", found, unreadable)
	}

	checkRows(t, []row{
		proven("ECHILD", ended.childless()),
		proven("ECHILD, then the keeper died", dead.childless().at(goneGroup())),
		proven("ECHILD, and the number is another group's", ended.childless().at(group(GroupForeign))),
		proven("ECHILD, and a look that was older", ended.childless().at(group(GroupPopulated).having(survivor))),
		proven("ECHILD needs nobody to accept it", weakly(dead.childless().at(goneGroup()))),
		{name: "ECHILD of another start", o: ended.childless().keptAs(func(k *Kept) { k.Nonce = otherNonce }), tree: "keeper", grade: GradeNone,
			missing: []Missing{noExit("keeper", `its record is of the start "`+otherNonce+`", this one is "`+ourNonce+`"`), untold}, remedy: "nothing says whether the job has ended"},
		{name: "ECHILD without an exit", o: keptJob(IsolationGroup).childless(), empty: true, tree: "ECHILD", grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet)}, remedy: "the exit is not recorded, or not yet"},

		// While the keeper lives, nothing but its own word empties a group.
		left("the keeper lives: nothing found counts for nothing", ended.at(goneGroup()), untold, wait),
		left("the keeper lives: nor does it when weak evidence is accepted", weakly(ended.at(goneGroup())), untold, wait),
		left("the keeper lives: nobody looked", ended, untold, wait),
		left("the keeper lives: no look was possible", ended.at(Group{State: GroupUnavailable, PGID: 4711, Err: "EINVAL"}), untold, wait),
		left("the keeper lives: EPERM", ended.at(group(GroupForeign)), notEmpty(signal, "returned EPERM"), foreign),
		left("the keeper lives: a member", ended.at(group(GroupPopulated).having(survivor)), notEmpty("group and session 4711", "populated: 4711 (sleep 300, state S)"), stop),
		left("the keeper lives: a process in its own session", ended.at(complete([]Member{survivor}, nil)), notEmpty("marker scan", "found: 4711 (sleep 300, state S)"), stop),
		{name: "running", o: keptJob(IsolationGroup).at(group(GroupPopulated).having(survivor)), tree: "group and session 4711 populated", grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet), notEmpty("group and session 4711", "populated: 4711 (sleep 300, state S)")}, remedy: "the job has not ended; await it with: unitward wait"},
		{name: "running, by signal 0", o: keptJob(IsolationGroup).at(group(GroupPopulated)), tree: signal + " succeeded", grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet), notEmpty(signal, "succeeded")}, remedy: "the job has not ended; await it with: unitward wait"},

		// After its death.
		{name: "weak, and accepted", o: weakly(dead.at(goneGroup())), exit: "exited 0", source: "keeper wait", empty: true, tree: signal + " returned ESRCH, and a complete scan", confirmed: true, grade: GradeWeak},
		{name: "weak, and not accepted", o: dead.at(goneGroup()), exit: "exited 0", source: "keeper wait", tree: signal + " returned ESRCH", grade: GradeWeak, missing: []Missing{weak}, remedy: accept},
		left("nobody looked", weakly(dead), notEmpty("process group", "not looked at"), nothing),
		left("a look at no group", weakly(dead.at(goneGroup()).with(func(o *Observation) { o.Group.PGID = 0 })), notEmpty("process group", "not looked at"), nothing),
		left("a look at group 1", weakly(dead.at(goneGroup()).with(func(o *Observation) { o.Group.PGID = 1 })), notEmpty("process group", "not looked at"), nothing),
		left("unavailable", weakly(dead.at(Group{State: GroupUnavailable, PGID: 4711, Err: "no /proc", Scan: Scan{State: ScanComplete}})), notEmpty(signal, "no /proc"), nothing),
		left("unavailable, nobody says why", weakly(dead.at(group(GroupUnavailable))), notEmpty(signal, "not read"), nothing),
		left("no scan", weakly(dead.at(group(GroupGone))), notEmpty("marker scan", "not made"), nothing),
		left("an incomplete scan", weakly(dead.at(group(GroupGone).scanned(ScanIncomplete, "hidepid=2", nil, nil))), notEmpty("marker scan", "incomplete: hidepid=2"), "the scan for processes of the job was not complete; "+again),
		left("an incomplete scan, nobody says why", weakly(dead.at(group(GroupGone).scanned(ScanIncomplete, "", nil, []Member{another}))), notEmpty("marker scan", "incomplete: not read"), "not complete"),
		left("a state of scan that does not exist", weakly(dead.at(group(GroupGone).scanned(9, "", nil, nil))), notEmpty("marker scan", "incomplete: not read"), nothing),
		left("a process that cannot be read", weakly(dead.at(complete(nil, []Member{another}))), notEmpty("marker scan", "could not read: 4713 (ssh-agent, state S)"),
			"process 4713 cannot be read and may be of the job; when it has ended, "+again),
		left("found by the marker", weakly(dead.at(complete([]Member{survivor}, []Member{another}))), notEmpty("marker scan", "found: 4711 (sleep 300, state S)"), "end it with: kill 4711"),
		left("found by an incomplete scan", weakly(dead.at(group(GroupGone).scanned(ScanIncomplete, "100 ms", []Member{survivor}, nil))), notEmpty("marker scan", "found: 4711 (sleep 300, state S)"), "end it with: kill 4711"),
		left("signal 0 succeeds", weakly(dead.at(group(GroupPopulated).scanned(ScanComplete, "", nil, nil))), notEmpty(signal, "succeeded"), stop),
		left("a member", weakly(dead.at(group(GroupPopulated).having(survivor).scanned(ScanComplete, "", nil, nil))), notEmpty("group and session 4711", "populated: 4711 (sleep 300, state S)"), stop),
		left("a member of a group that is called gone", weakly(dead.at(goneGroup().having(survivor))), notEmpty("group and session 4711", "populated: 4711 (sleep 300, state S)"), stop),
		left("a zombie leader alone", weakly(dead.at(group(GroupPopulated).having(zombie))), notEmpty("group and session 4711", "populated: 4711 ([sh], state Z)"),
			"what is left has ended and waits for its parent to reap it; after that, "+again),
		left("a zombie leader and a member", weakly(dead.at(group(GroupPopulated).having(zombie, another))), notEmpty("group and session 4711", "populated: 4711 ([sh], state Z) 4713 (ssh-agent, state S)"), stop),
		left("EPERM is not gone", weakly(dead.at(group(GroupForeign).scanned(ScanComplete, "", nil, nil))), notEmpty(signal, "returned EPERM"), foreign),
		left("EPERM, and who they are", weakly(dead.at(group(GroupForeign).having(another))), notEmpty(signal, "returned EPERM: 4713 (ssh-agent, state S)"), foreign),
		left("uninterruptible sleep", weakly(dead.at(group(GroupPopulated).having(stuck))), notEmpty("group and session 4711", "populated: 4712 ([cp], state D in rpc_wait_bit_killable)"),
			"process 4712 is in uninterruptible sleep (state D in rpc_wait_bit_killable) and no signal can end it; once it wakes, "+again),
		left("a cgroup is no evidence", weakly(dead.in(cgroup(CgroupGone))), notEmpty("process group", "not looked at"), nothing),
		left("a cgroup that is populated withholds", weakly(dead.at(goneGroup()).in(populated(survivor))), notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)"), "unitward"),

		// The exit went with the keeper.
		lost("lost, weak and not accepted", keptJob(IsolationGroup).orphaned().at(goneGroup()), weak, died+", and no command can bring the exit status back; "+accept),
		{name: "lost, weak and accepted", o: weakly(keptJob(IsolationGroup).orphaned().at(goneGroup())), empty: true, tree: signal, grade: GradeNone, lost: true,
			missing: []Missing{noExit("keeper", died)}, remedy: "none can help: " + died + "; the outcome is unknown"},
		lost("lost, a member is left", keptJob(IsolationGroup).orphaned().at(group(GroupPopulated).having(survivor)), notEmpty("group and session 4711", "populated: 4711 (sleep 300, state S)"), stop),
		lost("lost, EPERM", keptJob(IsolationGroup).orphaned().at(group(GroupForeign)), notEmpty(signal, "returned EPERM"), foreign),
		{name: "the group is another's", o: weakly(dead.at(goneGroup())).identity(IdentityChanged, "pid namespace is b"), tree: "identity", grade: GradeNone, lost: true,
			missing: []Missing{noExit("identity", "pid namespace is b"), notEmpty("identity", "pid namespace is b")}, remedy: "none can help: pid namespace is b"},
	})
}

// A survivor that was seen ends the re-check early; a zombie is none.
func TestRecheckOfAGroup(t *testing.T) {
	for name, c := range map[string]struct {
		g   Group
		end bool
	}{
		"a member":              {group(GroupPopulated).having(zombie, survivor), true},
		"found by the marker":   {goneGroup().scanned(ScanComplete, "", []Member{survivor}, nil), true},
		"a zombie":              {group(GroupPopulated).having(zombie), false},
		"signal 0 alone":        {group(GroupPopulated), false},
		"one that is not known": {goneGroup().scanned(ScanComplete, "", nil, []Member{another}), false},
	} {
		looks := 0
		Recheck(context.Background(), newClock(), func(context.Context) Observation {
			looks++
			return keptJob(IsolationGroup).exited(0, 0).orphaned().at(c.g)
		})
		if (looks == 1) != c.end {
			t.Errorf("%s: %d looks", name, looks)
		}
	}
}
