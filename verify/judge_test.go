package verify

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	ourID   = "0123456789abcdef0123456789abcdef"
	otherID = "fedcba9876543210fedcba9876543210"
	ourPath = "/user.slice/app.slice/unitward-make-7f3a90c1.service"
	jobName = "unitward-make-7f3a90c1"
)

var (
	lookedAt   = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	recordedAt = lookedAt.Add(-time.Minute)
	survivor   = Member{PID: 4711, Command: "sleep 300", State: "S"}
	stuck      = Member{PID: 4712, Command: "[cp]", State: "D", Wchan: "rpc_wait_bit_killable"}
)

// row is one observation and all that Judge must say about it.
type row struct {
	name string
	o    Observation

	exit      string // "exited 0", "killed 15", "dumped 11"; "" is not known
	source    string // a part of Exit.Source
	empty     bool
	tree      string // a part of Tree.Source
	confirmed bool
	grade     Grade
	missing   []Missing
	lost      bool
	remedy    string // a part of Remedy
}

// job is an observation of a service that unitward started on this boot.
func job(u Unit, c Cgroup) Observation {
	return Observation{
		Name: jobName, Isolation: IsolationService, InvocationID: ourID, At: lookedAt,
		Identity: Identity{State: IdentitySame, Detail: "host, boot and user are the recorded ones"},
		Unit:     u, Cgroup: c,
	}
}

// unit is the manager's word, in the order of the columns of notes/systemd.md.
func unit(active, result string, code, status int32, cgroup string, tasks uint64) Unit {
	active, sub, _ := strings.Cut(active, "/")
	return Unit{
		Read: true, ManagerVersion: 257, LoadState: "loaded", InvocationID: ourID,
		ActiveState: active, SubState: sub, Result: result,
		ExecMainCode: code, ExecMainStatus: status, ControlGroup: cgroup, TasksCurrent: tasks,
	}
}

// notFound is a unit that the manager does not have.
func notFound() Unit {
	u := unit("inactive/dead", "success", 0, 0, "", TasksUnset)
	u.LoadState, u.InvocationID = "not-found", ""
	return u
}

func silent(err string) Unit { return Unit{Err: err} }

func (o Observation) with(change func(*Observation)) Observation {
	change(&o)
	return o
}

func (o Observation) recorded(code, status string) Observation {
	o.Recorded = &Recorded{InvocationID: ourID, ExitCode: code, ExitStatus: status, At: recordedAt}
	return o
}

func (o Observation) on(isolation string) Observation {
	o.Isolation = isolation
	return o
}

func (o Observation) systemd(version int) Observation {
	o.Unit.ManagerVersion = version
	return o
}

func (o Observation) identity(s IdentityState, detail string) Observation {
	o.Identity = Identity{State: s, Detail: detail}
	return o
}

func populated(ms ...Member) Cgroup {
	return Cgroup{State: CgroupPopulated, Path: ourPath, Members: ms}
}

func cgroup(s CgroupState) Cgroup { return Cgroup{State: s, Path: ourPath} }

func unreadable(err string) Cgroup {
	return Cgroup{State: CgroupUnavailable, Path: ourPath, Err: err}
}

func noExit(looked, said string) Missing   { return Missing{MissingExit, looked, said} }
func notEmpty(looked, said string) Missing { return Missing{MissingEmpty, looked, said} }
func active(said string) Missing           { return Missing{MissingInactive, "ActiveState", said} }

func exitString(e Exit) string {
	switch {
	case !e.Known:
		return ""
	case e.Signal == 0:
		return fmt.Sprintf("exited %d", e.Code)
	case e.CoreDumped:
		return fmt.Sprintf("dumped %d", e.Signal)
	}
	return fmt.Sprintf("killed %d", e.Signal)
}

func checkRows(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { r.check(t, Judge(r.o)) })
	}
}

func (r row) check(t *testing.T, v Verdict) {
	t.Helper()
	if got := exitString(v.Exit); got != r.exit {
		t.Errorf("exit is %q, want %q", got, r.exit)
	}
	if v.Exit.Known && (r.source == "" || !strings.Contains(v.Exit.Source, r.source)) {
		t.Errorf("exit source %q does not name %q", v.Exit.Source, r.source)
	}
	if v.Exit.Known && strings.Contains(v.Exit.Source, "recorder") {
		if at := r.o.Recorded.At; !v.Exit.At.Equal(at) {
			t.Errorf("exit is dated %v, want %v", v.Exit.At, at)
		}
	}
	if k := r.o.Kept; v.Exit.Known && r.o.Isolation != IsolationService && !v.Exit.At.Equal(k.ExitAt) {
		t.Errorf("exit is dated %v, want %v", v.Exit.At, k.ExitAt)
	}
	if v.Tree.Empty != r.empty {
		t.Errorf("tree empty is %v, want %v", v.Tree.Empty, r.empty)
	}
	if r.tree == "" || !strings.Contains(v.Tree.Source, r.tree) {
		t.Errorf("tree source %q does not name %q", v.Tree.Source, r.tree)
	}
	if v.Confirmed != r.confirmed || v.Grade != r.grade {
		t.Errorf("confirmed is %v, grade %q, want %v, %q", v.Confirmed, v.Grade, r.confirmed, r.grade)
	}
	if !reflect.DeepEqual(v.Missing, r.missing) {
		t.Errorf("missing is\n\t%q, want\n\t%q", v.Missing, r.missing)
	}
	if v.Lost != r.lost {
		t.Errorf("lost is %v, want %v", v.Lost, r.lost)
	}
	if !strings.Contains(v.Remedy, r.remedy) || (r.remedy == "") != (v.Remedy == "") {
		t.Errorf("remedy %q does not say %q", v.Remedy, r.remedy)
	}
}
