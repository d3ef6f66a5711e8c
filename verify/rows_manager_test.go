package verify

import (
	"fmt"
	"strings"
	"testing"
)

// The rows of "What proves an end, and what does not" in the notes on systemd,
// in its order. A cell that says "n or unset" is two rows.
func managerRows() []row {
	const n = 3
	gone, alive, empty := cgroup(CgroupGone), populated(survivor), cgroup(CgroupEmpty)
	seen := notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)")
	created := unit("inactive/dead", "success", 0, 0, "", TasksUnset)
	created.InvocationID = ""
	createdPath := created
	createdPath.ControlGroup = ourPath
	unrecorded := func(o *Observation) { o.InvocationID = "" }
	restarted := unit("inactive/dead", "success", 0, 0, "", TasksUnset)
	restarted.InvocationID = ""
	stop, wait, again := "unitward stop "+jobName, "unitward wait "+jobName, "unitward verify "+jobName

	rows := []row{
		{name: "just created, not yet started", o: job(created, Cgroup{}).with(unrecorded), grade: GradeNone,
			tree: "cgroup not read", remedy: again,
			missing: []Missing{noExit("InvocationID", "empty: this manager has not started the unit"), notEmpty("cgroup", "not read")}},
		{name: "just created, with a cgroup", o: job(createdPath, Cgroup{}).with(unrecorded), grade: GradeNone,
			tree: "cgroup not read", remedy: again,
			missing: []Missing{noExit("InvocationID", "empty: this manager has not started the unit"), notEmpty("cgroup", "not read")}},
		{name: "RemainAfterExit, exit 0", o: job(unit("active/exited", "success", 1, 0, "", TasksUnset), gone),
			exit: "exited 0", source: "ExecMainCode=1 ExecMainStatus=0", empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "RemainAfterExit, exit 0, by the manager alone", o: job(unit("active/exited", "success", 1, 0, "", TasksUnset), Cgroup{}),
			exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: `ControlGroup=""`, confirmed: true, grade: GradeProven},
		{name: "exit 9", o: job(unit("failed/failed", "exit-code", 1, 9, "", TasksUnset), gone),
			exit: "exited 9", source: "ExecMainStatus=9", empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "exit 9, by the manager alone", o: job(unit("failed/failed", "exit-code", 1, 9, "", TasksUnset), Cgroup{}),
			exit: "exited 9", source: "ExecMainStatus=9", empty: true, tree: `ControlGroup=""`, confirmed: true, grade: GradeProven},
		{name: "exit 0, nobody holds a reference", o: job(notFound(), gone), empty: true, tree: "removed", grade: GradeNone, lost: true,
			missing: []Missing{noExit("LoadState", "not-found")}, remedy: "none can help: the manager dropped the unit"},
		{name: "exit 0, nobody holds a reference, but a recorder ran", o: job(notFound(), gone).recorded("exited", "0"),
			exit: "exited 0", source: "recorder EXIT_CODE=exited", empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "the user manager was killed and restarted, job alive", o: job(restarted, alive), tree: "populated 1", grade: GradeNone, lost: true,
			missing: []Missing{noExit("InvocationID", "empty: this manager has not started the unit"), seen}, remedy: "the manager was restarted and lost the exit status, which no command can bring back; end what is left with: " + stop},
		{name: "the job asked another manager", o: job(unit("inactive/dead", "success", 1, 0, "", TasksUnset), gone),
			exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "a unit that never existed", o: job(notFound(), Cgroup{}).with(unrecorded), tree: "cgroup not read", grade: GradeNone,
			missing: []Missing{noExit("LoadState", "not-found"), notEmpty("cgroup", "not read")}, remedy: "the start was not recorded to its end; run: " + again},
	}
	for _, tasks := range []uint64{n, TasksUnset} {
		suffix := " (pids)"
		if tasks == TasksUnset {
			suffix = " (no pids controller)"
		}
		zero := tasks
		if tasks == n {
			zero = 0
		}
		rows = append(rows,
			row{name: "running" + suffix, o: job(unit("active/running", "success", 0, 0, ourPath, tasks), alive), tree: "populated 1", grade: GradeNone,
				missing: []Missing{noExit("ExecMainCode", "0"), active("active (running)"), seen}, remedy: "await it with: " + wait},
			row{name: "RemainAfterExit, a setsid child lives" + suffix, o: job(unit("active/exited", "success", 1, 0, ourPath, tasks), alive),
				exit: "exited 0", source: "ExecMainCode=1", tree: "populated 1", grade: GradeNone,
				missing: []Missing{seen}, remedy: "processes are left; end them with: " + stop},
			row{name: "RemainAfterExit, then the child exits too" + suffix, o: job(unit("active/exited", "success", 1, 0, ourPath, zero), empty),
				exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: "cgroup.events populated 0", confirmed: true, grade: GradeProven},
			row{name: "KillMode=process, stopped, a child lives" + suffix, o: job(unit("inactive/dead", "success", 2, 15, ourPath, tasks), alive),
				exit: "killed 15", source: "ExecMainCode=2 ExecMainStatus=15", tree: "populated 1", grade: GradeNone,
				missing: []Missing{seen}, remedy: "processes are left; end them with: " + stop},
			row{name: "SendSIGKILL=no, the stop timed out" + suffix, o: job(unit("failed/failed", "timeout", 0, 0, ourPath, tasks), alive),
				tree: "populated 1", grade: GradeNone, lost: true,
				missing: []Missing{noExit("ExecMainCode", "0"), seen}, remedy: "never reaped the main process, which no command can bring back; end what is left with: " + stop},
		)
	}
	return append(rows,
		// Where our own read fails, the manager's count is all there is.
		row{name: "then the child exits too, by TasksCurrent alone", o: job(unit("active/exited", "success", 1, 0, ourPath, 0), unreadable("EACCES")),
			exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: "TasksCurrent=0", confirmed: true, grade: GradeProven},
		row{name: "then the child exits too, and nothing says so", o: job(unit("active/exited", "success", 1, 0, ourPath, TasksUnset), Cgroup{}),
			exit: "exited 0", source: "ExecMainCode=1", tree: "TasksCurrent [not set]", grade: GradeNone,
			missing: []Missing{notEmpty("TasksCurrent", "[not set]")}, remedy: "nothing says whether processes are left; run: " + again},
		row{name: "KillMode=process, a child lives, by TasksCurrent alone", o: job(unit("inactive/dead", "success", 2, 15, ourPath, 1), Cgroup{}),
			exit: "killed 15", source: "ExecMainCode=2", tree: "TasksCurrent 1", grade: GradeNone,
			missing: []Missing{notEmpty("TasksCurrent", "1")}, remedy: "end them with: " + stop},
	)
}

func TestManagerRows(t *testing.T) { checkRows(t, managerRows()) }

// Every row was seen on all the managers of the rig, and must read the same.
func TestManagerRowsOnEachSystemd(t *testing.T) {
	for _, version := range []int{247, 252, 257, 262} {
		for _, r := range managerRows() {
			t.Run(fmt.Sprintf("%d %s", version, r.name), func(t *testing.T) {
				r.check(t, Judge(r.o.systemd(version)))
			})
		}
	}
}

// The bullets below that table, as far as they concern a verdict.
func TestBulletRows(t *testing.T) {
	gone, alive, empty := cgroup(CgroupGone), populated(survivor), cgroup(CgroupEmpty)
	dead := func(code, status int32) Unit { return unit("inactive/dead", "success", code, status, "", TasksUnset) }
	seen := notEmpty("cgroup.events", "populated 1: 4711 (sleep 300, state S)")
	notSet := notEmpty("TasksCurrent", "[not set]")
	rows := []row{
		{name: "TasksCurrent is unset while the job runs", o: job(unit("active/running", "success", 0, 0, ourPath, TasksUnset), Cgroup{}),
			tree: "TasksCurrent [not set]", grade: GradeNone, remedy: "await it with: unitward wait",
			missing: []Missing{noExit("ExecMainCode", "0"), active("active (running)"), notSet}},
		{name: "a literal 0 is proof", o: job(unit("inactive/dead", "success", 1, 0, ourPath, 0), Cgroup{}),
			exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: "TasksCurrent=0", confirmed: true, grade: GradeProven},
		{name: "a 0 that nobody asked for is not", o: job(unit("inactive/dead", "success", 0, 0, "", 0), Cgroup{}).recorded("exited", "0"),
			exit: "exited 0", source: "recorder", tree: "TasksCurrent 0 without a cgroup", grade: GradeNone,
			missing: []Missing{notEmpty("TasksCurrent", "0 without a cgroup")}, remedy: "nothing says"},
		{name: "ControlGroup empty before 247", o: job(dead(1, 0), Cgroup{}).systemd(246),
			exit: "exited 0", source: "ExecMainCode=1", tree: "ControlGroup empty", grade: GradeNone,
			missing: []Missing{notEmpty("ControlGroup", "empty, which systemd 246 also says while processes are left")}, remedy: "nothing says"},
		{name: "ControlGroup empty on an unknown version", o: job(dead(1, 0), Cgroup{}).systemd(0),
			exit: "exited 0", source: "ExecMainCode=1", tree: "ControlGroup empty", grade: GradeNone,
			missing: []Missing{notEmpty("ControlGroup", "empty, which systemd of unknown version also says while processes are left")}, remedy: "nothing says"},
		{name: "ControlGroup empty without a reaped main process", o: job(dead(0, 0), Cgroup{}).recorded("exited", "0"),
			exit: "exited 0", source: "recorder", tree: "TasksCurrent [not set]", grade: GradeNone, missing: []Missing{notSet}, remedy: "nothing says"},
		{name: "the directory is gone before 247", o: job(dead(1, 0), gone).systemd(245),
			exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: "its parent is there", confirmed: true, grade: GradeProven},
		{name: "code 3 is a core dump", o: job(dead(3, 11), gone), exit: "dumped 11", source: "ExecMainCode=3 ExecMainStatus=11",
			empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "code 0 is no exit", o: job(dead(0, 0), gone), empty: true, tree: "removed", grade: GradeNone, lost: true,
			missing: []Missing{noExit("ExecMainCode", "0")}, remedy: "none can help: the manager never reaped the main process; the outcome is unknown"},
		{name: "active (exited) without a reaped main process", o: job(unit("active/exited", "success", 0, 0, "", TasksUnset), gone), empty: true, tree: "removed", grade: GradeNone,
			missing: []Missing{noExit("ExecMainCode", "0")}, remedy: "the exit is not recorded, or not yet; run: unitward verify"},
		{name: "code 4 (trapped) is no exit", o: job(dead(4, 5), gone), empty: true, tree: "removed", grade: GradeNone, lost: true,
			missing: []Missing{noExit("ExecMainCode", "4")}, remedy: "none can help"},
		{name: "killed by signal 0 is no exit", o: job(dead(2, 0), gone), empty: true, tree: "removed", grade: GradeNone, lost: true,
			missing: []Missing{noExit("ExecMainCode", "2 with the impossible ExecMainStatus 0")}, remedy: "none can help"},
		{name: "exit code 256 is no exit", o: job(dead(1, 256), gone), empty: true, tree: "removed", grade: GradeNone, lost: true,
			missing: []Missing{noExit("ExecMainCode", "1 with the impossible ExecMainStatus 256")}, remedy: "none can help"},
		{name: "death by PIPE counts as success in Result only", o: job(dead(2, 13), gone), exit: "killed 13", source: "ExecMainStatus=13",
			empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "Type=exec before 256: result failed, program ran", o: job(unit("failed/failed", "protocol", 1, 0, "", TasksUnset), gone).systemd(252),
			exit: "exited 0", source: "ExecMainCode=1", empty: true, tree: "removed", confirmed: true, grade: GradeProven},
		{name: "Processes still around after final SIGKILL", o: job(unit("failed/failed", "timeout", 0, 0, ourPath, TasksUnset), populated(stuck)),
			tree: "populated 1", grade: GradeNone, lost: true,
			missing: []Missing{noExit("ExecMainCode", "0"), notEmpty("cgroup.events", "populated 1: 4712 ([cp], state D in rpc_wait_bit_killable)")},
			remedy:  "process 4712 is in uninterruptible sleep (state D in rpc_wait_bit_killable) and no signal can end it; once it wakes, run: unitward verify"},
		{name: "ExitType=cgroup: the main exit is recorded, the unit runs", o: job(unit("active/running", "success", 1, 0, ourPath, 1), alive),
			exit: "exited 0", source: "ExecMainCode=1", tree: "populated 1", grade: GradeNone,
			missing: []Missing{active("active (running)"), seen}, remedy: "await them with: unitward wait " + jobName + ", or end them with: unitward stop"},
		{name: "ExecStopPost records the exit, not the emptiness", o: job(unit("deactivating/stop-post", "success", 0, 0, ourPath, TasksUnset), alive).recorded("exited", "3"),
			exit: "exited 3", source: "recorder EXIT_CODE=exited EXIT_STATUS=3", tree: "populated 1", grade: GradeNone,
			missing: []Missing{active("deactivating (stop-post)"), seen}, remedy: "processes are left"},
		{name: "empty before ExecStopPost was forked", o: job(unit("deactivating/stop-post", "success", 1, 3, ourPath, 0), empty),
			exit: "exited 3", source: "ExecMainCode=1", tree: "populated 0, while the unit is deactivating (stop-post)", grade: GradeNone,
			missing: []Missing{active("deactivating (stop-post)"), notEmpty("cgroup.events", "populated 0, while the unit is deactivating (stop-post)")},
			remedy:  "the unit has not come to rest; await it with: unitward wait"},
		{name: "empty before a restart", o: job(unit("activating/auto-restart", "exit-code", 1, 3, "", TasksUnset), gone),
			exit: "exited 3", source: "ExecMainCode=1", tree: "while the unit is activating (auto-restart)", grade: GradeNone,
			missing: []Missing{active("activating (auto-restart)"), notEmpty("cgroup", "removed, its parent is there, while the unit is activating (auto-restart)")}, remedy: "come to rest"},
		{name: "failed on the way to a restart", o: job(unit("failed/failed-before-auto-restart", "exit-code", 1, 3, "", TasksUnset), Cgroup{}),
			exit: "exited 3", source: "ExecMainCode=1", tree: `ControlGroup="" after the exit, while`, grade: GradeNone,
			missing: []Missing{active("failed (failed-before-auto-restart)"), notEmpty("systemd", `ControlGroup="" after the exit, while the unit is failed (failed-before-auto-restart)`)}, remedy: "come to rest"},
		{name: "an empty cgroup before the main process", o: job(unit("activating/start", "success", 0, 0, ourPath, 0), empty),
			tree: "while the unit is activating (start)", grade: GradeNone, remedy: "await it with: unitward wait",
			missing: []Missing{noExit("ExecMainCode", "0"), active("activating (start)"), notEmpty("cgroup.events", "populated 0, while the unit is activating (start)")}},
		{name: "a masked unit withholds and proves nothing", o: job(unit("deactivating/stop-post", "success", 1, 0, ourPath, 0), empty).with(func(o *Observation) { o.Unit.LoadState = "masked" }),
			tree: "while the unit is deactivating (stop-post)", grade: GradeNone, remedy: "await it with: unitward wait",
			missing: []Missing{noExit("LoadState", "masked"), active("deactivating (stop-post)"), notEmpty("cgroup.events", "populated 0, while the unit is deactivating (stop-post)")}},
	}
	for _, sub := range []string{"start-pre", "start", "start-post", "stop", "stop-sigterm", "stop-sigkill", "final-sigterm", "final-sigkill", "auto-restart-queued"} {
		state := "deactivating"
		if strings.HasPrefix(sub, "start") || strings.HasPrefix(sub, "auto") {
			state = "activating"
		}
		said := state + " (" + sub + ")"
		rows = append(rows, row{name: "not at rest: " + said, o: job(unit(state+"/"+sub, "success", 1, 0, ourPath, TasksUnset), empty),
			exit: "exited 0", source: "ExecMainCode=1", tree: "while the unit is " + said, grade: GradeNone,
			missing: []Missing{active(said), notEmpty("cgroup.events", "populated 0, while the unit is "+said)}, remedy: "come to rest"})
	}
	checkRows(t, rows)
}
