package verify

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Judging costs microseconds, and the corners are many. A failure prints
	// its seed; files in the source tree are not needed for that.
	for name, value := range map[string]string{"rapid.checks": "5000", "rapid.nofailfile": "true"} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			if err := f.Value.Set(value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// mostly draws what makes a job confirmed three times out of four, so that
// single flaws in an otherwise good observation are common.
func mostly[T any](t *rapid.T, label string, good T, others ...T) T {
	if rapid.IntRange(0, 3).Draw(t, label+"?") > 0 {
		return good
	}
	return rapid.SampledFrom(others).Draw(t, label)
}

var (
	isolations = []string{IsolationScope, IsolationCgroup, IsolationGroup, "", "vm"}
	states     = []string{"active", "activating", "deactivating", "failed", "reloading", "maintenance", "refreshing", ""}
	subStates  = []string{"dead", "running", "exited", "failed", "start", "stop-post", "auto-restart", "failed-before-auto-restart", "dead-before-auto-restart", ""}
	exitCodes  = []string{"exited", "killed", "dumped", "", "trapped"}
	statuses   = []string{"0", "7", "255", "256", "-1", "TERM", "SIGKILL", "RTMIN+30", "RTMIN+31", "RTMAX-1", "64", "65", "", " 1", "TERM ", "1e1"}
	allTasks   = []uint64{TasksUnset, 0, 1, 17, TasksUnset - 1}
)

func drawUnit(t *rapid.T) Unit {
	if rapid.IntRange(0, 4).Draw(t, "silent?") == 0 {
		return Unit{Err: rapid.SampledFrom([]string{"", "timeout", "a\nb"}).Draw(t, "err")}
	}
	u := Unit{
		Read:           true,
		ManagerVersion: mostly(t, "version", 257, 0, 232, 246, 247, 248, 262),
		LoadState:      mostly(t, "load", "loaded", "not-found", "masked", "bad-setting", ""),
		ActiveState:    mostly(t, "active", "inactive", states...),
		SubState:       mostly(t, "sub", "dead", subStates...),
		InvocationID:   mostly(t, "unit id", ourID, otherID, ""),
		ExecMainCode:   mostly[int32](t, "code", 1, 0, 2, 3, 4, 5, 6, -1),
		ExecMainStatus: mostly[int32](t, "status", 0, 1, 9, 15, 64, 65, 255, 256, -1),
		ControlGroup:   rapid.SampledFrom([]string{"", ourPath}).Draw(t, "control group"),
		TasksCurrent:   rapid.SampledFrom(allTasks).Draw(t, "tasks"),
	}
	return u
}

func drawCgroup(t *rapid.T) Cgroup {
	c := Cgroup{Path: ourPath, State: CgroupState(rapid.IntRange(0, 5).Draw(t, "cgroup"))}
	if rapid.Bool().Draw(t, "members?") {
		c.Members = []Member{survivor, stuck, {PID: 1, Command: "\x1b[2J", State: "?"}}
	}
	if rapid.Bool().Draw(t, "cgroup err?") {
		c.Err = "permission denied\n"
	}
	return c
}

func drawRecorded(t *rapid.T) *Recorded {
	if rapid.Bool().Draw(t, "no recorder?") {
		return nil
	}
	r := &Recorded{InvocationID: mostly(t, "recorded id", ourID, otherID, ""), At: recordedAt}
	if rapid.IntRange(0, 3).Draw(t, "any recorded?") == 0 {
		r.ExitCode, r.ExitStatus = rapid.String().Draw(t, "any code"), rapid.String().Draw(t, "any status")
		return r
	}
	r.ExitCode = rapid.SampledFrom(exitCodes).Draw(t, "exit code")
	r.ExitStatus = rapid.SampledFrom(statuses).Draw(t, "exit status")
	return r
}

func drawKept(t *rapid.T) *Kept {
	if rapid.IntRange(0, 7).Draw(t, "no keeper?") == 0 {
		return nil
	}
	k := &Kept{
		Nonce:     mostly(t, "kept nonce", ourNonce, otherNonce, ""),
		Exited:    mostly(t, "exited", true, false),
		Code:      mostly(t, "code", 0, 7, 255, 256, -1),
		Signal:    mostly(t, "signal", 0, 1, 9, 64, 65, -1),
		Childless: mostly(t, "childless", false, true),
		Source:    rapid.SampledFrom([]string{"", "stub wait", "a\nb"}).Draw(t, "kept source"),
	}
	k.CoreDumped = k.Signal != 0 && rapid.Bool().Draw(t, "core") || rapid.IntRange(0, 9).Draw(t, "core?") == 0
	if rapid.Bool().Draw(t, "moments?") {
		k.ExitAt, k.ChildlessAt = keptAt, childlessAt
	}
	return k
}

func drawMembers(t *rapid.T, label string) []Member {
	return mostly(t, label, nil, []Member{survivor}, []Member{stuck, zombie}, []Member{zombie}, []Member{{PID: 1, Command: "\x1b[2J", State: "?"}})
}

func drawGroup(t *rapid.T) Group {
	if rapid.Bool().Draw(t, "nothing is left?") {
		return goneGroup()
	}
	return Group{
		State:   mostly(t, "group", GroupGone, GroupUnread, GroupPopulated, GroupForeign, GroupUnavailable, 9),
		PGID:    mostly(t, "pgid", 4711, 0, 1, -1),
		Err:     rapid.SampledFrom([]string{"", "no /proc\n"}).Draw(t, "group err"),
		Members: drawMembers(t, "group members"),
		Scan: Scan{
			State:      mostly(t, "scan", ScanComplete, ScanNone, ScanIncomplete, 9),
			Err:        rapid.SampledFrom([]string{"", "hidepid\n"}).Draw(t, "scan err"),
			Members:    drawMembers(t, "scanned"),
			Unreadable: drawMembers(t, "unreadable"),
		},
	}
}

// drawRung draws most often those whose evidence has the most parts.
func drawRung(t *rapid.T) string {
	return rapid.SampledFrom(append([]string{IsolationService, IsolationService, IsolationService, IsolationGroup, IsolationGroup, IsolationGroup}, isolations...)).Draw(t, "isolation")
}

func draw(t *rapid.T) Observation {
	o := drawAll(t)
	if o.Isolation == IsolationGroup && rapid.IntRange(0, 3).Draw(t, "a cgroup?") > 0 {
		o.Cgroup = Cgroup{} // it has none of its own
	}
	if (o.Isolation == IsolationScope || o.Isolation == IsolationCgroup) && rapid.Bool().Draw(t, "removed?") {
		o.Cgroup.State = CgroupGone
	}
	return o
}

func drawAll(t *rapid.T) Observation {
	return Observation{
		Name: jobName, At: lookedAt,
		Isolation:    drawRung(t),
		InvocationID: mostly(t, "id", ourID, ""),
		Identity: Identity{
			State:  mostly(t, "identity", IdentitySame, IdentityUnchecked, IdentityChanged, IdentityOtherBoot, IdentityForeign, 99),
			Detail: mostly(t, "detail", "x is b, recorded was a", "", "x\ny"),
		},
		Unit: drawUnit(t), Cgroup: drawCgroup(t), Recorded: drawRecorded(t),
		Nonce: mostly(t, "nonce", ourNonce, ""), Kept: drawKept(t), Group: drawGroup(t),
		KeeperGone: mostly(t, "keeper gone", true, false), Stopping: rapid.Bool().Draw(t, "stopping"),
		AcceptWeak: rapid.Bool().Draw(t, "accept weak"), Abandoned: rapid.Bool().Draw(t, "abandoned"), Tended: rapid.Bool().Draw(t, "tended"), KilledAll: rapid.Bool().Draw(t, "killed all"),
	}
}

// No observation is confirmed without the evidence that design §2 demands,
// and none that has it is left unconfirmed.
func TestVerdictIsTheEvidenceRule(t *testing.T) {
	kinds := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		v := Judge(o)
		exit, empty := proven(o)
		if v.Exit.Known != exit {
			t.Fatalf("exit known is %v by %q, the rule says %v", v.Exit.Known, v.Exit.Source, exit)
		}
		if v.Tree.Empty != empty {
			t.Fatalf("tree empty is %v by %q, the rule says %v", v.Tree.Empty, v.Tree.Source, empty)
		}
		if v.Confirmed != (exit && empty) {
			t.Fatalf("confirmed is %v, exit %v, empty %v", v.Confirmed, exit, empty)
		}
		if grade := graded(o); v.Grade != grade {
			t.Fatalf("grade is %s, the rule says %s", v.Grade, grade)
		}
		for kind, is := range map[string]bool{"confirmed": v.Confirmed, "lost": v.Lost, "exit only": exit && !empty, "empty only": empty && !exit} {
			if is {
				kinds[o.Isolation+" "+kind]++
			}
		}
		if v.Grade == GradeWeak {
			kinds[fmt.Sprintf("weak, confirmed %v", v.Confirmed)]++
		}
	})
	// A generator that never reaches a case proves nothing about it.
	want := []string{"weak, confirmed true", "weak, confirmed false"}
	for isolation := range exitWitnesses {
		for _, kind := range []string{"confirmed", "lost", "exit only", "empty only"} {
			want = append(want, isolation+" "+kind)
		}
	}
	for _, kind := range want {
		if kinds[kind] < 5 {
			t.Errorf("only %d generated observations are %q", kinds[kind], kind)
		}
	}
}

func TestVerdictIsWellFormed(t *testing.T) {
	order := []string{MissingExit, MissingInactive, MissingEmpty}
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		v := Judge(o)
		if v.Confirmed {
			if !v.Exit.Known || !v.Tree.Empty || len(v.Missing) > 0 || v.Remedy != "" || v.Grade == GradeNone || v.Lost || len(v.Tree.Members) > 0 {
				t.Fatalf("confirmed, and yet %+v", v)
			}
			return
		}
		if v.Grade == GradeProven || len(v.Missing) == 0 || v.Remedy == "" {
			t.Fatalf("unconfirmed, and yet %+v", v)
		}
		last := -1
		for _, m := range v.Missing {
			at := slices.Index(order, m.What)
			if at <= last || m.Looked == "" || strings.TrimSpace(m.Said) == "" {
				t.Fatalf("missing is disordered, doubled or empty: %q", v.Missing)
			}
			last = at
		}
		has := func(what string) bool {
			return slices.ContainsFunc(v.Missing, func(m Missing) bool { return m.What == what })
		}
		if has(MissingExit) == v.Exit.Known || has(MissingEmpty) == v.Tree.Empty {
			t.Fatalf("missing %q contradicts exit %v, tree %v", v.Missing, v.Exit, v.Tree)
		}
		if !strings.Contains(v.Remedy, "unitward ") && !strings.HasPrefix(v.Remedy, "none can help") {
			t.Fatalf("the remedy is no command and does not say that none can help: %q", v.Remedy)
		}
		if strings.HasPrefix(v.Remedy, "processes are left;") && !seen(o) && o.Unit.TasksCurrent == TasksUnset {
			t.Fatalf("processes are called left that nobody saw: %q", v.Remedy)
		}
		for _, text := range []string{v.Remedy, v.Tree.Source, v.Exit.Source, v.Missing[0].Said, v.Missing[len(v.Missing)-1].Said} {
			if strings.ContainsFunc(text, unicode.IsControl) {
				t.Fatalf("control character in %q", text)
			}
		}
		if len(v.Tree.Members) > 0 && (v.Tree.Empty || !seen(o)) {
			t.Fatalf("members of a tree that nobody saw populated: %+v", v.Tree)
		}
	})
}

// seen is true when our own look saw a process, or was told of one.
func seen(o Observation) bool {
	g := o.Group
	return o.Cgroup.State == CgroupPopulated || o.Isolation == IsolationGroup &&
		(g.State == GroupPopulated || g.State == GroupForeign || len(g.Members)+len(g.Scan.Members) > 0)
}

func TestExitIsPossibleAndTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		e := Judge(o).Exit
		if e.Code < 0 || e.Code > 255 || e.Signal < 0 || e.Signal > 64 || e.Code != 0 && e.Signal != 0 || e.CoreDumped && e.Signal == 0 {
			t.Fatalf("impossible exit %+v", e)
		}
		if !e.Known && (e.Source != "" || e.Code != 0 || e.Signal != 0) {
			t.Fatalf("unknown exit with content %+v", e)
		}
		if e.Known && e.Signal == 0 && strings.HasPrefix(e.Source, "systemd") && o.Unit.ExecMainCode != 1 {
			t.Fatalf("a death by signal reads as an exit: %+v", e)
		}
		if e.Known && e.Signal == 0 && strings.HasPrefix(e.Source, "recorder") && o.Recorded.ExitCode != "exited" {
			t.Fatalf("a recorded death by signal reads as an exit: %+v", e)
		}
		if k := o.Kept; e.Known && o.Isolation != IsolationService && (e.Code != k.Code || e.Signal != k.Signal || e.CoreDumped != k.CoreDumped) {
			t.Fatalf("the keeper wrote down %+v, and that reads %+v", k, e)
		}
	})
}

func TestJudgeIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		before := o
		before.Cgroup.Members = slices.Clone(o.Cgroup.Members)
		if o.Recorded != nil {
			r := *o.Recorded
			before.Recorded = &r
		}
		if o.Kept != nil {
			k := *o.Kept
			before.Kept = &k
		}
		for _, ms := range []*[]Member{&before.Group.Members, &before.Group.Scan.Members, &before.Group.Scan.Unreadable} {
			*ms = slices.Clone(*ms)
		}
		first, second := Judge(o), Judge(o)
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("the same observation gave %+v and %+v", first, second)
		}
		if !reflect.DeepEqual(before, o) {
			t.Fatalf("the observation was changed to %+v", o)
		}
	})
}
