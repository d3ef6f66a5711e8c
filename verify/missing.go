package verify

import (
	"fmt"
	"strconv"
	"strings"
)

func (j judge) missing(v Verdict) []Missing {
	var m []Missing
	if !v.Exit.Known {
		looked, said := j.lookedForExit()
		m = append(m, Missing{MissingExit, looked, said})
	}
	if j.unfinished() {
		m = append(m, Missing{MissingInactive, "ActiveState", j.activeState()})
	}
	if !v.Tree.Empty {
		looked, said := j.lookedForMembers()
		m = append(m, Missing{MissingEmpty, looked, said})
	}
	return m
}

func (j judge) activeState() string {
	return orNotRead(j.o.Unit.ActiveState) + " (" + orNotRead(j.o.Unit.SubState) + ")"
}

// identity says why nothing that was seen is believed.
func (j judge) identity() string {
	u := j.o.Unit
	switch {
	case j.o.Identity.State != IdentitySame:
		return j.detail()
	case j.o.Cgroup.State == CgroupReplaced:
		return "another cgroup stands at " + oneLine(j.o.Cgroup.Path)
	default:
		return fmt.Sprintf("InvocationID is %s, recorded was %s", oneLine(u.InvocationID), oneLine(j.o.InvocationID))
	}
}

func (j judge) unknownRung() string {
	return strconv.Quote(j.o.Isolation) + ", for which nothing counts as evidence"
}

// detail is the identity check's own account, or what its outcome means.
func (j judge) detail() string {
	switch {
	case j.o.Identity.Detail != "":
		return oneLine(j.o.Identity.Detail)
	case j.o.Identity.State == IdentityChanged:
		return "something else answers to the recorded identity"
	case j.o.Identity.State == IdentityOtherBoot:
		return "the record is of an earlier boot"
	case j.o.Identity.State == IdentityForeign:
		return "the record is of another host or user"
	}
	return "not compared"
}

func (j judge) lookedForExit() (looked, said string) {
	if j.o.Identity.State != IdentityOtherBoot && !j.believed() {
		return "identity", j.identity()
	}
	looked, said = j.managerOnExit()
	if r := j.o.Recorded; r != nil && j.service() {
		if r.InvocationID != j.o.InvocationID {
			said += "; the recorder's InvocationID is " + strconv.Quote(r.InvocationID)
		} else {
			said += fmt.Sprintf("; the recorder said EXIT_CODE=%q EXIT_STATUS=%q", r.ExitCode, r.ExitStatus)
		}
	}
	return looked, said
}

func (j judge) managerOnExit() (looked, said string) {
	u := j.o.Unit
	switch {
	case j.o.Identity.State == IdentityOtherBoot:
		return "record", "no exit was recorded before the host was rebooted: " + j.detail()
	case !j.rung():
		return "isolation", j.unknownRung()
	case !j.service():
		return j.keeperOnExit()
	case !u.Read && u.Err != "":
		return "manager", oneLine(u.Err)
	case !u.Read:
		return "manager", "not asked"
	case u.LoadState != "loaded":
		return "LoadState", orNotRead(u.LoadState)
	case u.InvocationID == "":
		return "InvocationID", "empty: this manager has not started the unit"
	case j.o.InvocationID == "":
		return "record", "no InvocationID was recorded at the start"
	case j.tended() && j.reaped():
		return "ExecMainCode", "2 with ExecMainStatus 9: who tended the main process was killed, and has not said how that ended"
	case u.ExecMainCode >= 1 && u.ExecMainCode <= 3:
		return "ExecMainCode", fmt.Sprintf("%d with the impossible ExecMainStatus %d", u.ExecMainCode, u.ExecMainStatus)
	default:
		return "ExecMainCode", strconv.Itoa(int(u.ExecMainCode))
	}
}

func (j judge) lookedForMembers() (looked, said string) {
	if !j.believed() {
		return "identity", j.identity()
	}
	if looked, said, ok := j.emptiness(); ok { // and the unit is unfinished
		return looked, said + ", while the unit is " + j.activeState()
	}
	c, u := j.o.Cgroup, j.o.Unit
	switch {
	case c.State == CgroupPopulated:
		looked, said = c.occupied()
		return looked, said + members(c.Members)
	case j.o.Isolation == IsolationGroup:
		looked, said, seen := j.lookedAtGroup()
		return looked, said + members(seen)
	case !j.rung():
		return "isolation", j.unknownRung()
	case c.State == CgroupEmpty:
		return "cgroup.events", "populated 0, and the cgroup is not removed yet"
	case c.State == CgroupUnavailable:
		looked, _ = c.occupied()
		return looked, orNotRead(c.Err)
	case !j.ours():
		return "cgroup", "not read"
	case u.ControlGroup == "" && j.reaped():
		return "ControlGroup", fmt.Sprintf("empty, which systemd %s also says while processes are left", version(u.ManagerVersion))
	case u.TasksCurrent == TasksUnset:
		return "TasksCurrent", "[not set]"
	case u.TasksCurrent == 0:
		return "TasksCurrent", "0 without a cgroup"
	default:
		return "TasksCurrent", strconv.FormatUint(u.TasksCurrent, 10)
	}
}

func version(n int) string {
	if n == 0 {
		return "of unknown version"
	}
	return strconv.Itoa(n)
}

// members names up to eight survivors.
func members(ms []Member) string {
	if len(ms) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(":")
	for i, m := range ms {
		if i == 8 {
			fmt.Fprintf(&b, " and %d more", len(ms)-i)
			break
		}
		fmt.Fprintf(&b, " %d (%s, %s)", m.PID, oneLine(m.Command), state(m))
	}
	return b.String()
}

// state says what a process does, and where it sleeps if that is known.
func state(m Member) string {
	s := "state " + oneLine(m.State)
	if m.Wchan != "" {
		s += " in " + oneLine(m.Wchan)
	}
	return s
}

func orNotRead(s string) string {
	if s == "" {
		return "not read"
	}
	return oneLine(s)
}

// oneLine escapes what would break a line or drive a terminal: a job chooses
// its command line, and error texts can quote it.
func oneLine(s string) string {
	quoted := strconv.QuoteToGraphic(s)
	quoted = quoted[1 : len(quoted)-1]
	if len(quoted) == len(s) {
		return s
	}
	return strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(quoted)
}
