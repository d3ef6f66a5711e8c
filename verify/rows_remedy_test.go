package verify

import (
	"strings"
	"testing"
)

// What is missing, in its order, and what can be done about it.
func TestMissingRows(t *testing.T) {
	running := unit("active/running", "success", 0, 0, ourPath, TasksUnset)
	ended := unit("inactive/dead", "success", 1, 0, ourPath, TasksUnset)
	denied := unreadable("open cgroup.events: permission denied")
	isDenied := notEmpty("cgroup.events", "open cgroup.events: permission denied")
	verify, stop, wait := "run: unitward verify "+jobName, "unitward stop "+jobName, "await it with: unitward wait "+jobName
	seen := notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)")
	dState := notEmpty("cgroup.events", "populated 1: 4712 ([cp], state D in rpc_wait_bit_killable)")
	checkRows(t, []row{
		{name: "all three, in order", o: job(running, denied), tree: "permission denied", grade: GradeNone, remedy: wait,
			missing: []Missing{noExit("ExecMainCode", "0"), active("active (running)"), isDenied}},
		{name: "the cgroup cannot be read", o: job(ended, denied), exit: "exited 0", source: "ExecMainCode=1", tree: "permission denied", grade: GradeNone,
			missing: []Missing{isDenied}, remedy: "the cgroup cannot be read; run as a user who can: unitward verify"},
		{name: "the cgroup cannot be read, nobody says why", o: job(ended, unreadable("")), exit: "exited 0", source: "ExecMainCode=1", tree: "cgroup.events not read", grade: GradeNone,
			missing: []Missing{notEmpty("cgroup.events", "not read")}, remedy: "the cgroup cannot be read"},
		{name: "the cgroup cannot be read and the exit is lost", o: job(notFound(), denied), tree: "permission denied", grade: GradeNone, lost: true,
			missing: []Missing{noExit("LoadState", "not-found"), isDenied}, remedy: "which no command can bring back; to see whether processes are left, run: unitward verify"},
		{name: "the manager does not answer", o: job(silent("dial /run/user/1000/bus: connection refused"), Cgroup{}), tree: "cgroup not read", grade: GradeNone,
			missing: []Missing{noExit("manager", "dial /run/user/1000/bus: connection refused"), notEmpty("cgroup", "not read")}, remedy: "the manager does not answer; when it does, " + verify},
		{name: "the manager does not answer, survivors are seen", o: job(silent("timeout"), populated(survivor)), tree: "populated 1", grade: GradeNone,
			missing: []Missing{noExit("manager", "timeout"), seen}, remedy: "the manager does not answer"},
		{name: "the manager does not answer, exit recorded, survivors are seen", o: job(silent("timeout"), populated(survivor)).recorded("exited", "0"), exit: "exited 0", source: "recorder",
			tree: "populated 1", grade: GradeNone, missing: []Missing{seen}, remedy: "processes are left; end them with: " + stop},
		{name: "the manager does not answer, the tree is empty", o: job(silent("timeout"), cgroup(CgroupGone)), empty: true, tree: "removed", grade: GradeNone,
			missing: []Missing{noExit("manager", "timeout")}, remedy: "the manager does not answer; when it does, " + verify},
		{name: "the manager was not asked", o: job(silent(""), cgroup(CgroupEmpty)), empty: true, tree: "populated 0", grade: GradeNone,
			missing: []Missing{noExit("manager", "not asked")}, remedy: "the manager was not asked; " + verify},
		{name: "uninterruptible sleep after the exit", o: job(ended, populated(stuck)), exit: "exited 0", source: "ExecMainCode=1", tree: "populated 1", grade: GradeNone,
			missing: []Missing{dState}, remedy: "process 4712 is in uninterruptible sleep (state D in rpc_wait_bit_killable) and no signal can end it; once it wakes, " + verify},
		{name: "uninterruptible sleep during a stop", o: job(unit("deactivating/final-sigkill", "timeout", 0, 0, ourPath, 1), populated(survivor, stuck)), tree: "populated 1", grade: GradeNone,
			missing: []Missing{noExit("ExecMainCode", "0"), active("deactivating (final-sigkill)"), notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S) 4712 ([cp], state D in rpc_wait_bit_killable)")},
			remedy:  "process 4712 is in uninterruptible sleep"},
		{name: "a running job that waits for its disk", o: job(running, populated(stuck)), tree: "populated 1", grade: GradeNone, remedy: wait,
			missing: []Missing{noExit("ExecMainCode", "0"), active("active (running)"), dState}},
		{name: "members of a cgroup that is empty by now", o: job(ended, Cgroup{State: CgroupEmpty, Members: []Member{stuck}}), exit: "exited 0", source: "ExecMainCode=1",
			empty: true, tree: "populated 0", confirmed: true, grade: GradeProven},
		{name: "members of a cgroup that cannot be read any more", o: job(ended, Cgroup{State: CgroupUnavailable, Err: "EIO", Members: []Member{stuck}}), exit: "exited 0", source: "ExecMainCode=1",
			tree: "EIO", grade: GradeNone, missing: []Missing{notEmpty("cgroup.events", "EIO")}, remedy: "the cgroup cannot be read"},
		{name: "populated, no member visible", o: job(ended, populated()), exit: "exited 0", source: "ExecMainCode=1", tree: "populated 1", grade: GradeNone,
			missing: []Missing{notEmpty("cgroup.events", "populated 1")}, remedy: "processes are left; end them with: " + stop},
		{name: "own read overrules the manager", o: job(unit("inactive/dead", "success", 1, 0, "", 0), populated(survivor)), exit: "exited 0", source: "ExecMainCode=1",
			tree: "populated 1", grade: GradeNone, missing: []Missing{seen}, remedy: stop},
		{name: "own read of emptiness is newer than the manager's count", o: job(unit("inactive/dead", "success", 1, 0, ourPath, 4), cgroup(CgroupEmpty)), exit: "exited 0", source: "ExecMainCode=1",
			empty: true, tree: "populated 0", confirmed: true, grade: GradeProven},
		{name: "unit state not read", o: job(unit("", "success", 1, 0, "", TasksUnset), cgroup(CgroupEmpty)), exit: "exited 0", source: "ExecMainCode=1", tree: "while the unit is not read (not read)",
			grade: GradeNone, missing: []Missing{active("not read (not read)"), notEmpty("cgroup.events", "populated 0, while the unit is not read (not read)")}, remedy: "come to rest"},
		{name: "load state not read is not lost", o: job(Unit{Read: true}, Cgroup{}), tree: "cgroup not read", grade: GradeNone,
			missing: []Missing{noExit("LoadState", "not read"), notEmpty("cgroup", "not read")}, remedy: "nothing says whether the job has ended; " + verify},
	})
}

// A job chooses its command line and, within bounds, its name: neither may
// break the line or the command that is proposed.
func TestTextsAreOneLine(t *testing.T) {
	hostile := Member{PID: 1, Command: "a\nb\x1b[2J\xff\u202e \"q\" c\\d", State: "S", Wchan: "x\ny"}
	o := job(unit("inactive/dead", "success", 1, 0, ourPath, TasksUnset), populated(hostile))
	v := Judge(o)
	want := `populated 1: 1 (a\nb\x1b[2J\xff\u202e "q" c\d, state S in x\ny)`
	if got := v.Missing[0].Said; got != want {
		t.Errorf("said %s, want %s", got, want)
	}
	for _, c := range []struct{ name, want string }{
		{"make", "unitward stop make"},
		{"a@b", "unitward stop a@b"},
		{`foo\x2dbar`, `unitward stop 'foo\x2dbar'`},
		{"it's", `unitward stop 'it'\''s'`},
		{"", "unitward stop ''"},
	} {
		o.Name = c.name
		if got := Judge(o).Remedy; !strings.HasSuffix(got, ": "+c.want) {
			t.Errorf("remedy %q does not end in %q", got, c.want)
		}
	}
}

func TestMembersAreCutAtEight(t *testing.T) {
	var ms []Member
	for pid := 1; pid <= 11; pid++ {
		ms = append(ms, Member{PID: pid, Command: "x", State: "S"})
	}
	for n, want := range map[int]string{8: " 8 (x, state S)", 9: " 8 (x, state S) and 1 more", 11: " and 3 more"} {
		v := Judge(job(unit("inactive/dead", "success", 1, 0, ourPath, TasksUnset), populated(ms[:n]...)))
		if said := v.Missing[0].Said; !strings.HasSuffix(said, want) {
			t.Errorf("%d members: %q does not end in %q", n, said, want)
		}
		if len(v.Tree.Members) != n {
			t.Errorf("%d members: the tree has %d", n, len(v.Tree.Members))
		}
	}
}
