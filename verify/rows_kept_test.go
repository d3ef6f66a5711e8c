package verify

import (
	"testing"
	"time"
)

const (
	ourNonce   = "7f3a90c1d2e4b586"
	otherNonce = "0000000000000000"
)

var (
	keptAt      = lookedAt.Add(-time.Hour)
	childlessAt = lookedAt.Add(-time.Minute)
)

// keptJob is an observation of a job with a keeper, on this boot.
func keptJob(isolation string) Observation {
	return Observation{
		Name: jobName, Isolation: isolation, Nonce: ourNonce, At: lookedAt,
		Identity: Identity{State: IdentitySame},
	}
}

// exited adds what the keeper wrote down of the main process's end.
func (o Observation) exited(code, signal int) Observation {
	k := Kept{Nonce: ourNonce, Exited: true, Code: code, Signal: signal, ExitAt: keptAt}
	if o.Kept != nil {
		k.Childless, k.ChildlessAt = o.Kept.Childless, o.Kept.ChildlessAt
	}
	o.Kept = &k
	return o
}

func (o Observation) childless() Observation {
	k := Kept{Nonce: ourNonce}
	if o.Kept != nil {
		k = *o.Kept
	}
	k.Childless, k.ChildlessAt = true, childlessAt
	o.Kept = &k
	return o
}

func (o Observation) in(c Cgroup) Observation {
	o.Cgroup = c
	return o
}

func (o Observation) at(g Group) Observation {
	o.Group = g
	return o
}

func (o Observation) orphaned() Observation {
	o.KeeperGone = true
	return o
}

func (o Observation) keptAs(change func(*Kept)) Observation {
	k := *o.Kept
	change(&k)
	o.Kept = &k
	return o
}

const (
	died    = "the keeper died before it saw the main process end"
	notYet  = "it has not written down that the main process ended"
	removed = "removed, its parent is there"
)

// What is the same wherever a keeper waits: what it wrote down is the exit.
func TestKeptExitRows(t *testing.T) {
	for _, isolation := range []string{IsolationScope, IsolationCgroup, IsolationGroup} {
		empty, tree := keptJob(isolation).in(cgroup(CgroupGone)), removed
		if isolation == IsolationGroup {
			empty, tree = keptJob(isolation).childless(), "ECHILD"
		}
		confirmed := func(name string, o Observation, exit, source string) row {
			return row{name: name, o: o, exit: exit, source: source, empty: true, tree: tree, confirmed: true, grade: GradeProven}
		}
		// Without a record of this start there is no word on children either.
		nothing := func(name string, o Observation, said string) row {
			r := row{name: name, o: o, empty: true, tree: tree, grade: GradeNone, missing: []Missing{noExit("keeper", said)}, remedy: "run: unitward verify"}
			if isolation == IsolationGroup {
				r.empty, r.tree = false, "keeper it has not written down that no child is left"
				r.missing = append(r.missing, notEmpty("keeper", "it has not written down that no child is left"))
			}
			return r
		}
		impossible := func(name string, code, signal int, core bool, said string) row {
			o := empty.exited(code, signal).keptAs(func(k *Kept) { k.CoreDumped = core })
			return row{name: name, o: o, empty: true, tree: tree, grade: GradeNone,
				missing: []Missing{noExit("keeper", "it wrote down the impossible "+said)}, remedy: "the exit is not recorded, or not yet; run: unitward verify"}
		}
		t.Run(isolation, func(t *testing.T) {
			checkRows(t, []row{
				confirmed("exit 0", empty.exited(0, 0), "exited 0", "keeper wait: exit code 0"),
				confirmed("exit 255", empty.exited(255, 0), "exited 255", "exit code 255"),
				confirmed("killed", empty.exited(0, 9), "killed 9", "keeper wait: signal 9"),
				confirmed("killed by the last real-time signal", empty.exited(0, 64), "killed 64", "signal 64"),
				confirmed("dumped core", empty.exited(0, 11).keptAs(func(k *Kept) { k.CoreDumped = true }), "dumped 11", "signal 11, core dumped"),
				confirmed("seen by the stub", empty.exited(7, 0).keptAs(func(k *Kept) { k.Source = "stub\nwait" }), "exited 7", `stub\nwait: exit code 7`),
				confirmed("written down before the keeper died", empty.exited(3, 0).orphaned(), "exited 3", "exit code 3"),
				impossible("exit 256", 256, 0, false, "code=256 signal=0 core=false"),
				impossible("exit -1", -1, 0, false, "code=-1 signal=0 core=false"),
				impossible("an exit that dumped core", 0, 0, true, "code=0 signal=0 core=true"),
				impossible("signal -1", 0, -1, false, "code=0 signal=-1 core=false"),
				impossible("signal 65", 0, 65, false, "code=0 signal=65 core=false"),
				impossible("code and signal", 1, 9, false, "code=1 signal=9 core=false"),
				{name: "not ended", o: empty.keptAsWell(), empty: true, tree: tree, grade: GradeNone,
					missing: []Missing{noExit("keeper", notYet)}, remedy: "the exit is not recorded, or not yet; run: unitward verify"},
				{name: "the keeper died before", o: empty.keptAsWell().orphaned(), empty: true, tree: tree, grade: GradeNone, lost: true,
					missing: []Missing{noExit("keeper", died)}, remedy: "none can help: " + died + "; the outcome is unknown"},
				{name: "impossible, and the keeper is dead", o: empty.exited(300, 0).orphaned(), empty: true, tree: tree, grade: GradeNone, lost: true,
					missing: []Missing{noExit("keeper", "it wrote down the impossible code=300 signal=0 core=false, and it is dead")}, remedy: "none can help"},
				nothing("another start's keeper", empty.exited(0, 0).keptAs(func(k *Kept) { k.Nonce = otherNonce }),
					`its record is of the start "`+otherNonce+`", this one is "`+ourNonce+`"`).awaits(),
				nothing("no number was recorded", empty.exited(0, 0).with(func(o *Observation) { o.Nonce = "" }), "no number of the start was recorded to compare its record with").awaits(),
				nothing("no number on either side proves nothing", empty.exited(0, 0).with(func(o *Observation) { o.Nonce = "" }).keptAs(func(k *Kept) { k.Nonce = "" }),
					"no number of the start was recorded to compare its record with").awaits(),
				nothing("a recorder of systemd's is not heard", empty.recorded("exited", "0").with(func(o *Observation) { o.InvocationID, o.Kept = ourID, nil }), notYet).awaits(),
				nothing("a property of a unit is not heard", empty.with(func(o *Observation) {
					o.Unit, o.InvocationID, o.Kept = unit("inactive/dead", "success", 1, 0, "", 0), ourID, nil
				}), notYet).awaits(),

				{name: "another boot, exit written down", o: keptJob(isolation).exited(2, 0).orphaned().identity(IdentityOtherBoot, "boot is b, recorded was a"),
					exit: "exited 2", source: "keeper wait", empty: true, tree: "boot id changed: boot is b", confirmed: true, grade: GradeProven},
				{name: "another boot, not written down", o: keptJob(isolation).identity(IdentityOtherBoot, "boot is b, recorded was a"), empty: true, tree: "boot id changed", grade: GradeNone, lost: true,
					missing: []Missing{noExit("record", "no exit was recorded before the host was rebooted: boot is b, recorded was a")}, remedy: "none can help: the host was rebooted"},
				{name: "another boot, another start's keeper", o: keptJob(isolation).exited(0, 0).keptAs(func(k *Kept) { k.Nonce = otherNonce }).identity(IdentityOtherBoot, ""), empty: true, tree: "boot id changed", grade: GradeNone, lost: true,
					missing: []Missing{noExit("record", "no exit was recorded before the host was rebooted: the record is of an earlier boot")}, remedy: "none can help"},
				{name: "another host", o: empty.exited(0, 0).identity(IdentityForeign, "machine-id is b"), tree: "identity machine-id is b", grade: GradeNone, lost: true,
					missing: []Missing{noExit("identity", "machine-id is b"), notEmpty("identity", "machine-id is b")}, remedy: "none can help from here: machine-id is b"},
				{name: "another process", o: empty.exited(0, 0).orphaned().identity(IdentityChanged, "pid 4711 started at 9, recorded was 7"), tree: "identity pid 4711", grade: GradeNone, lost: true,
					missing: []Missing{noExit("identity", "pid 4711 started at 9, recorded was 7"), notEmpty("identity", "pid 4711 started at 9, recorded was 7")}, remedy: "none can help: pid 4711"},
				{name: "not compared", o: empty.exited(0, 0).identity(IdentityUnchecked, ""), tree: "identity not compared", grade: GradeNone,
					missing: []Missing{noExit("identity", "not compared"), notEmpty("identity", "not compared")}, remedy: "run: unitward verify"},
			})
		})
	}
	checkRows(t, []row{
		{name: "a service has a recorder, no keeper", o: job(notFound(), cgroup(CgroupGone)).with(func(o *Observation) { o.Nonce = ourNonce }).exited(0, 0).childless(), empty: true, tree: removed, grade: GradeNone, lost: true,
			missing: []Missing{noExit("LoadState", "not-found")}, remedy: "none can help: the manager dropped the unit"},
		{name: "a dead keeper is nothing to a service", o: job(unit("active/running", "success", 0, 0, ourPath, 1), populated(survivor)).orphaned(), tree: "populated 1", grade: GradeNone,
			missing: []Missing{noExit("ExecMainCode", "0"), active("active (running)"), notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)")}, remedy: "await it"},
		{name: "without the moment of the wait", o: keptJob(IsolationScope).in(cgroup(CgroupEmpty)).with(func(o *Observation) { o.Kept = &Kept{Nonce: ourNonce, ExitAt: lookedAt} }), empty: true, tree: "populated 0", grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet)}, remedy: "the exit is not recorded, or not yet"},
	})
}

// A service whose main process tends the job's: who waits for that comes before
// the manager, which knows the tender alone.
func TestTendedRows(t *testing.T) {
	tended := func(u Unit, c Cgroup) Observation {
		return job(u, c).with(func(o *Observation) { o.Tended, o.Nonce = true, ourNonce })
	}
	gone := cgroup(CgroupGone)
	rest := func(code, status int32) Observation {
		return tended(unit("failed/failed", "signal", code, status, "", TasksUnset), gone)
	}
	confirmed := func(name string, o Observation, exit, source string) row {
		return row{name: name, o: o, exit: exit, source: source, empty: true, tree: removed, confirmed: true, grade: GradeProven}
	}
	killed := tended(unit("deactivating/stop-sigterm", "signal", 2, 9, ourPath, TasksUnset), populated(survivor))
	checkRows(t, []row{
		confirmed("nobody wrote", rest(1, 3), "exited 3", "ExecMainStatus=3"),
		confirmed("all was killed, by us", rest(2, 9).with(func(o *Observation) { o.KilledAll = true }), "killed 9", "ExecMainStatus=9"),
		confirmed("all was killed, by the manager", rest(2, 9).with(func(o *Observation) { o.Unit.Result = "timeout" }), "killed 9", "ExecMainStatus=9"),
		{name: "the tender was killed, and nobody says how the job ended", o: rest(2, 9), tree: removed, empty: true, grade: GradeNone, lost: true,
			missing: []Missing{noExit("ExecMainCode", "2 with ExecMainStatus 9: who tended the main process was killed, and has not said how that ended")},
			remedy:  "none can help: who tended the main process was killed before he could say how that ended"},
		{name: "the same, as the recorder has it", o: rest(2, 9).recorded("killed", "KILL"), tree: removed, empty: true, grade: GradeNone, lost: true,
			missing: []Missing{noExit("ExecMainCode", "2 with ExecMainStatus 9: who tended the main process was killed, and has not said how that ended; the recorder said EXIT_CODE=\"killed\" EXIT_STATUS=\"KILL\"")},
			remedy:  "none can help: who tended the main process was killed before he could say how that ended"},
		confirmed("the tender was killed, the job not", rest(2, 9).exited(7, 0), "exited 7", "keeper wait: exit code 7"),
		confirmed("the tender was killed once it had written", rest(2, 9).recorded("exited", "7"), "exited 7", "recorder EXIT_CODE=exited"),
		confirmed("the manager lost the unit", tended(notFound(), gone).exited(7, 0), "exited 7", "keeper wait"),
		{name: "the tender was killed, the job is being stopped", o: killed, tree: "populated 1", grade: GradeNone,
			missing: []Missing{noExit("ExecMainCode", "2 with ExecMainStatus 9: who tended the main process was killed, and has not said how that ended"),
				active("deactivating (stop-sigterm)"), notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)")}, remedy: "await it with: "},
		{name: "the tender was killed, the job has ended, its members not", o: killed.exited(7, 0), exit: "exited 7", source: "keeper wait", tree: "populated 1", grade: GradeNone,
			missing: []Missing{active("deactivating (stop-sigterm)"), notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)")}, remedy: "processes are left; await them"},
	})
}

// keptAsWell makes sure that the keeper has written something.
func (o Observation) keptAsWell() Observation {
	if o.Kept == nil {
		o.Kept = &Kept{Nonce: ourNonce}
	}
	return o
}

// awaits is the row with the remedy of its rung for a record that says nothing.
func (r row) awaits() row {
	if r.o.Isolation == IsolationGroup {
		r.remedy = "nothing says whether the job has ended; run: unitward verify"
	}
	return r
}

func TestKeptMoments(t *testing.T) {
	o := keptJob(IsolationGroup).exited(0, 0).childless()
	if v := Judge(o); !v.Exit.At.Equal(keptAt) || !v.Tree.At.Equal(childlessAt) {
		t.Errorf("exit at %v, tree at %v", v.Exit.At, v.Tree.At)
	}
	o = o.keptAs(func(k *Kept) { k.ExitAt, k.ChildlessAt = time.Time{}, time.Time{} })
	if v := Judge(o); !v.Exit.At.Equal(lookedAt) || !v.Tree.At.Equal(lookedAt) {
		t.Errorf("without moments: exit at %v, tree at %v", v.Exit.At, v.Tree.At)
	}
}

// A systemd scope: our wait for the exit, our own read for the tree.
func TestScopeRows(t *testing.T) {
	scope := keptJob(IsolationScope).exited(4, 0).with(func(o *Observation) { o.InvocationID = ourID })
	running := unit("active/running", "success", 0, 0, ourPath, 0)
	ended := func(name string, o Observation, tree string) row {
		return row{name: name, o: o, exit: "exited 4", source: "keeper wait", empty: true, tree: tree, confirmed: true, grade: GradeProven}
	}
	left := func(name string, o Observation, said Missing, remedy string) row {
		return row{name: name, o: o, exit: "exited 4", source: "keeper wait", tree: said.Looked, grade: GradeNone, missing: []Missing{said}, remedy: remedy}
	}
	inactive := unit("inactive/dead", "success", 1, 0, "", 0)
	another := "InvocationID is " + otherID + ", recorded was " + ourID
	seen := notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)")
	checkRows(t, []row{
		ended("populated 0", scope.in(cgroup(CgroupEmpty)), "cgroup.events populated 0"),
		ended("gone", scope.in(cgroup(CgroupGone)), removed),
		ended("its ActiveState withholds nothing", scope.in(cgroup(CgroupGone)).with(func(o *Observation) { o.Unit = running }), removed),
		left("its ActiveState proves nothing", scope.with(func(o *Observation) { o.Unit = inactive }), notEmpty("cgroup", "not read"), "nothing says whether processes are left; run: unitward verify"),
		left("TasksCurrent=0 proves nothing", scope.in(unreadable("EACCES")).with(func(o *Observation) { o.Unit = running }), notEmpty("cgroup.events", "EACCES"), "run as a user who can: unitward verify"),
		left("no child of the keeper's proves nothing", scope.childless().in(populated(survivor)), seen, "processes are left; end them with: unitward stop"),
		left("a group proves nothing", scope.orphaned().at(goneGroup()).with(func(o *Observation) { o.AcceptWeak = true }), notEmpty("cgroup", "not read"), "nothing says"),
		left("uninterruptible sleep", scope.in(populated(stuck)), notEmpty("cgroup.events", "populated 1: 4712 ([cp], state D in rpc_wait_bit_killable)"), "process 4712 is in uninterruptible sleep"),
		{name: "uninterruptible sleep of a running job", o: keptJob(IsolationScope).in(populated(stuck)), tree: "populated 1", grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet), notEmpty("cgroup.events", "populated 1: 4712 ([cp], state D in rpc_wait_bit_killable)")}, remedy: "the job has not ended; await it with: unitward wait"},
		{name: "uninterruptible sleep during a stop", o: keptJob(IsolationScope).in(populated(stuck)).with(func(o *Observation) { o.Stopping = true }), tree: "populated 1", grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet), notEmpty("cgroup.events", "populated 1: 4712 ([cp], state D in rpc_wait_bit_killable)")}, remedy: "process 4712 is in uninterruptible sleep"},
		{name: "running", o: keptJob(IsolationScope).in(populated(survivor)), tree: "populated 1", grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet), seen}, remedy: "the job has not ended; await it with: unitward wait"},
		{name: "the manager does not have it", o: keptJob(IsolationScope).in(cgroup(CgroupGone)).with(func(o *Observation) { o.InvocationID, o.Unit = ourID, notFound() }), empty: true, tree: removed, grade: GradeNone,
			missing: []Missing{noExit("keeper", notYet)}, remedy: "the exit is not recorded, or not yet"},
		{name: "the keeper died, processes are left", o: keptJob(IsolationScope).in(populated(survivor)).orphaned(), tree: "populated 1", grade: GradeNone, lost: true,
			missing: []Missing{noExit("keeper", died), seen}, remedy: died + ", which no command can bring back; end what is left with: unitward stop"},
		{name: "the keeper died, the cgroup is not read", o: keptJob(IsolationScope).orphaned(), tree: "cgroup not read", grade: GradeNone, lost: true,
			missing: []Missing{noExit("keeper", died), notEmpty("cgroup", "not read")}, remedy: "which no command can bring back; to see whether processes are left, run: unitward verify"},
		{name: "another scope of the name", o: scope.in(cgroup(CgroupGone)).with(func(o *Observation) { o.Unit = inactive; o.Unit.InvocationID = otherID }), exit: "exited 4", source: "keeper wait", tree: another, grade: GradeNone, lost: true,
			missing: []Missing{notEmpty("identity", another)}, remedy: "none can help: " + another},
		{name: "another cgroup at the path", o: scope.in(cgroup(CgroupReplaced)), exit: "exited 4", source: "keeper wait", tree: "another cgroup", grade: GradeNone, lost: true,
			missing: []Missing{notEmpty("identity", "another cgroup stands at "+ourPath)}, remedy: "none can help"},
	})
}

// A cgroup that we own is proven empty by its removal.
func TestCgroupRows(t *testing.T) {
	raw := keptJob(IsolationCgroup).exited(0, 15)
	unremoved := notEmpty("cgroup.events", "populated 0, and the cgroup is not removed yet")
	left := func(name string, o Observation, said Missing, remedy string) row {
		return row{name: name, o: o, exit: "killed 15", source: "keeper wait", tree: said.Looked, grade: GradeNone, missing: []Missing{said}, remedy: remedy}
	}
	checkRows(t, []row{
		{name: "removed", o: raw.in(cgroup(CgroupGone)), exit: "killed 15", source: "keeper wait", empty: true, tree: removed, confirmed: true, grade: GradeProven},
		{name: "removed, the keeper is dead", o: raw.in(cgroup(CgroupGone)).orphaned(), exit: "killed 15", source: "keeper wait", empty: true, tree: removed, confirmed: true, grade: GradeProven},
		left("populated 0 without the rmdir", raw.in(cgroup(CgroupEmpty)), unremoved, "the empty cgroup is still there; remove it with: unitward stop"),
		left("no child of the keeper's without the rmdir", raw.in(cgroup(CgroupEmpty)).childless(), unremoved, "remove it with: unitward stop"),
		left("populated", raw.in(populated(survivor)), notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)"), "processes are left; end them with: unitward stop"),
		left("unavailable", raw.in(unreadable("EACCES")), notEmpty("cgroup.events", "EACCES"), "run as a user who can: unitward verify"),
		left("not read", raw, notEmpty("cgroup", "not read"), "nothing says whether processes are left"),
		{name: "the keeper died, the empty cgroup is left", o: keptJob(IsolationCgroup).in(cgroup(CgroupEmpty)).orphaned(), tree: "populated 0, and", grade: GradeNone, lost: true,
			missing: []Missing{noExit("keeper", died), unremoved}, remedy: "to see whether processes are left, run: unitward verify"},
	})
}
