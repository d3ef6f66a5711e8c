package verify

import "testing"

// What was looked at is not, or may not be, what was started.
func TestIdentityRows(t *testing.T) {
	gone, alive := cgroup(CgroupGone), populated(survivor)
	ended := unit("inactive/dead", "success", 1, 0, "", TasksUnset)
	ok := job(ended, gone) // confirmed as it stands
	foreignUnit := ended
	foreignUnit.InvocationID = otherID
	is := func(said string) []Missing { return []Missing{noExit("identity", said), notEmpty("identity", said)} }
	another := "InvocationID is " + otherID + ", recorded was " + ourID
	checkRows(t, []row{
		{name: "the same", o: ok, exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "nothing was looked at", o: Observation{}, tree: "identity not compared", grade: GradeNone, missing: is("not compared"), remedy: "unitward verify ''"},
		{name: "not compared", o: ok.identity(IdentityUnchecked, ""), tree: "identity not compared", grade: GradeNone,
			missing: is("not compared"), remedy: "run: unitward verify " + jobName},
		{name: "not compared, with a recorder", o: ok.recorded("exited", "0").identity(IdentityUnchecked, "no machine-id"), tree: "identity no machine-id", grade: GradeNone,
			missing: []Missing{noExit("identity", "no machine-id"), notEmpty("identity", "no machine-id")}, remedy: "run: unitward verify"},
		{name: "no such state", o: ok.identity(99, ""), tree: "identity not compared", grade: GradeNone, missing: is("not compared"), remedy: "run: unitward verify"},
		{name: "changed", o: ok.identity(IdentityChanged, "pid 4711 started at 9, recorded was 7"), tree: "identity pid 4711", grade: GradeNone, lost: true,
			missing: is("pid 4711 started at 9, recorded was 7"), remedy: "none can help: pid 4711 started at 9, recorded was 7"},
		{name: "changed, nobody says how", o: ok.identity(IdentityChanged, ""), tree: "identity something else", grade: GradeNone, lost: true,
			missing: is("something else answers to the recorded identity"), remedy: "none can help: something else answers"},
		{name: "another host", o: ok.identity(IdentityForeign, "machine-id is b, recorded was a"), tree: "identity machine-id", grade: GradeNone, lost: true,
			missing: is("machine-id is b, recorded was a"), remedy: "none can help from here: machine-id is b, recorded was a"},
		{name: "another uid, survivors in sight", o: job(ended, alive).identity(IdentityForeign, "uid is 1001, recorded was 1000"), tree: "identity uid", grade: GradeNone, lost: true,
			missing: is("uid is 1001, recorded was 1000"), remedy: "none can help from here: uid is 1001"},
		{name: "foreign, nobody says how", o: ok.identity(IdentityForeign, ""), tree: "identity the record is of another", grade: GradeNone, lost: true,
			missing: is("the record is of another host or user"), remedy: "none can help from here: the record is of another host or user"},
		{name: "another boot, exit recorded", o: job(notFound(), cgroup(CgroupUnread)).recorded("exited", "2").identity(IdentityOtherBoot, "boot is b, recorded was a"),
			exit: "exited 2", source: "recorder EXIT_CODE=exited EXIT_STATUS=2", empty: true, tree: "boot id changed: boot is b", confirmed: true, grade: GradeProven},
		{name: "another boot, exit not recorded", o: job(notFound(), cgroup(CgroupUnread)).identity(IdentityOtherBoot, "boot is b, recorded was a"),
			empty: true, tree: "boot id changed", grade: GradeNone, lost: true,
			missing: []Missing{noExit("record", "no exit was recorded before the host was rebooted: boot is b, recorded was a")},
			remedy:  "none can help: the host was rebooted; the processes are gone and the outcome is unknown"},
		{name: "another boot: what the manager says now is not the job's", o: job(ended, alive).identity(IdentityOtherBoot, ""),
			empty: true, tree: "the record is of an earlier boot", grade: GradeNone, lost: true,
			missing: []Missing{noExit("record", "no exit was recorded before the host was rebooted: the record is of an earlier boot")}, remedy: "none can help"},
		{name: "replaced cgroup", o: job(ended, cgroup(CgroupReplaced)), tree: "another cgroup stands at " + ourPath, grade: GradeNone, lost: true,
			missing: is("another cgroup stands at " + ourPath), remedy: "none can help: another cgroup stands at " + ourPath},
		{name: "replaced cgroup, exit recorded", o: job(ended, cgroup(CgroupReplaced)).recorded("killed", "KILL"), exit: "killed 9", source: "recorder EXIT_CODE=killed EXIT_STATUS=KILL",
			tree: "another cgroup", grade: GradeNone, lost: true, missing: []Missing{notEmpty("identity", "another cgroup stands at "+ourPath)}, remedy: "none can help"},
		{name: "other InvocationID", o: job(foreignUnit, gone), tree: another, grade: GradeNone, lost: true, missing: is(another), remedy: "none can help: " + another},
		{name: "other InvocationID, survivors at the path", o: job(foreignUnit, alive), tree: another, grade: GradeNone, lost: true, missing: is(another), remedy: "none can help: " + another},
		{name: "other InvocationID, exit recorded", o: job(foreignUnit, gone).recorded("exited", "0"), exit: "exited 0", source: "recorder", tree: another, grade: GradeNone, lost: true,
			missing: []Missing{notEmpty("identity", another)}, remedy: "none can help"},
		{name: "no InvocationID was ever recorded", o: ok.with(func(o *Observation) { o.InvocationID = "" }), empty: true, tree: "removed", grade: GradeNone,
			missing: []Missing{noExit("record", "no InvocationID was recorded at the start")}, remedy: "the start was not recorded to its end; run: unitward verify"},
	})
}

// The job's own recorder, which is a service's alone.
func TestRecorderRows(t *testing.T) {
	gone, empty := cgroup(CgroupGone), cgroup(CgroupEmpty)
	collected := job(notFound(), gone)
	missing := func(said string) []Missing { return []Missing{noExit("LoadState", "not-found; "+said)} }
	confirmed := func(name string, o Observation, exit, source, tree string) row {
		return row{name: name, o: o, exit: exit, source: source, empty: true, tree: tree, confirmed: true, grade: GradeProven}
	}
	bad := func(name, code, status, said string) row {
		return row{name: name, o: collected.recorded(code, status), empty: true, tree: "removed", grade: GradeNone, lost: true,
			missing: missing("the recorder said " + said), remedy: "none can help: the manager dropped the unit"}
	}
	checkRows(t, []row{
		confirmed("exited", collected.recorded("exited", "7"), "exited 7", "recorder EXIT_CODE=exited EXIT_STATUS=7", "removed"),
		confirmed("killed", collected.recorded("killed", "TERM"), "killed 15", "EXIT_STATUS=TERM", "removed"),
		confirmed("killed by a real-time signal", collected.recorded("killed", "RTMIN+0"), "killed 34", "EXIT_STATUS=RTMIN+0", "removed"),
		confirmed("dumped", collected.recorded("dumped", "SEGV"), "dumped 11", "EXIT_CODE=dumped", "removed"),
		confirmed("the manager does not answer, own evidence does", job(silent("timeout"), empty).recorded("exited", "0"), "exited 0", "recorder", "populated 0"),
		confirmed("the manager's word comes first", job(unit("inactive/dead", "success", 2, 9, "", TasksUnset), gone).recorded("exited", "0"), "killed 9", "systemd ExecMainCode=2", "removed"),
		bad("the main process did not run", "", "", `EXIT_CODE="" EXIT_STATUS=""`),
		bad("exit status 256", "exited", "256", `EXIT_CODE="exited" EXIT_STATUS="256"`),
		bad("exit status -1", "exited", "-1", `EXIT_CODE="exited" EXIT_STATUS="-1"`),
		bad("exit status a name", "exited", "TERM", `EXIT_CODE="exited" EXIT_STATUS="TERM"`),
		bad("killed by no signal", "killed", "0", `EXIT_CODE="killed" EXIT_STATUS="0"`),
		bad("killed by an unknown name", "killed", "FOO", `EXIT_CODE="killed" EXIT_STATUS="FOO"`),
		bad("stopped is no end", "stopped", "STOP", `EXIT_CODE="stopped" EXIT_STATUS="STOP"`),
		bad("a line break", "exited\n", "0\x1b", `EXIT_CODE="exited\n" EXIT_STATUS="0\x1b"`),
		{name: "another start's recorder", o: collected.recorded("exited", "0").with(func(o *Observation) { o.Recorded.InvocationID = otherID }), empty: true, tree: "removed",
			grade: GradeNone, lost: true, missing: missing(`the recorder's InvocationID is "` + otherID + `"`), remedy: "none can help"},
		{name: "no InvocationID on either side proves nothing", o: collected.recorded("exited", "0").with(func(o *Observation) { o.InvocationID, o.Recorded.InvocationID = "", "" }),
			empty: true, tree: "removed", grade: GradeNone, missing: missing(`the recorder said EXIT_CODE="exited" EXIT_STATUS="0"`), remedy: "not recorded to its end; run: unitward verify"},

		{name: "no isolation", o: job(silent(""), gone).on(""), tree: "isolation", grade: GradeNone,
			missing: []Missing{noExit("isolation", `"", for which nothing counts as evidence`), notEmpty("isolation", `"", for which nothing counts as evidence`)}, remedy: "nothing says"},
	})
}
