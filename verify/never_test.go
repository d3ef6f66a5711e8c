package verify

import (
	"testing"

	"pgregory.net/rapid"
)

// What never makes a job ended, each stated by itself.

func TestChangedIdentityIsNeverConfirmed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		switch rapid.IntRange(0, 4).Draw(t, "change") {
		case 0:
			o.Identity.State = IdentityChanged
		case 1:
			o.Identity.State = IdentityForeign
		case 2:
			o.Identity.State = IdentityUnchecked
		case 3:
			o.Identity.State, o.Cgroup.State = IdentitySame, CgroupReplaced
		case 4:
			o.Identity.State, o.InvocationID = IdentitySame, ourID
			o.Unit.Read, o.Unit.InvocationID = true, otherID
		}
		if v := Judge(o); v.Confirmed || v.Tree.Empty || v.Lost != (o.Identity.State != IdentityUnchecked) {
			t.Fatalf("a stranger is believed: %+v", v)
		}
	})
}

// No later look can rescue what was lost with the identity.
func TestLostStaysLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Identity.State = rapid.SampledFrom([]IdentityState{IdentityChanged, IdentityForeign}).Draw(t, "stranger")
		later := o
		later.Unit, later.Cgroup, later.Recorded = drawUnit(t), drawCgroup(t), drawRecorded(t)
		if !Judge(o).Lost || !Judge(later).Lost || Judge(later).Confirmed {
			t.Fatalf("lost, then %+v", Judge(later))
		}
	})
}

// A start that is not recorded, or whose exit is not the manager's to keep,
// can still become known: it is not lost.
func TestNotLostTooEarly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Identity.State = IdentitySame
		if o.Cgroup.State == CgroupReplaced {
			o.Cgroup.State = CgroupGone
		}
		switch rapid.IntRange(0, 2).Draw(t, "why") {
		case 0:
			o.InvocationID = ""
		case 1:
			o.Isolation = rapid.SampledFrom(isolations).Draw(t, "rung")
			o.Unit.InvocationID = ""
		case 2:
			o.Unit = Unit{Err: "timeout"}
		}
		if v := Judge(o); v.Lost {
			t.Fatalf("lost too early: %+v", v)
		}
	})
}

func TestUnsetTasksNeverEmptyATree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		some := rapid.Uint64Range(1, TasksUnset-1).Draw(t, "n")
		o.Unit.TasksCurrent = TasksUnset
		unset := Judge(o)
		o.Unit.TasksCurrent = some
		if counted := Judge(o); unset.Tree.Empty != counted.Tree.Empty {
			t.Fatalf("unset says %v, %d says %v", unset.Tree, some, counted.Tree)
		}
		// With nothing else to go by, unset is unknown.
		o.Unit.TasksCurrent, o.Unit.ControlGroup, o.Cgroup = TasksUnset, ourPath, Cgroup{}
		if v := Judge(o); v.Tree.Empty && o.Identity.State != IdentityOtherBoot {
			t.Fatalf("unset is empty: %+v", v.Tree)
		}
	})
}

func TestPopulatedOverrulesTheManager(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Cgroup.State = CgroupPopulated
		if v := Judge(o); o.Identity.State != IdentityOtherBoot && (v.Tree.Empty || v.Confirmed) {
			t.Fatalf("populated 1 is empty: %+v", v.Tree)
		}
	})
}

// An error, or nothing at all, is never a fact.
func TestErrorsAreNoEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Unit.Read, o.Unit.Err = false, "timeout"
		o.Cgroup.State, o.Cgroup.Err = rapid.SampledFrom([]CgroupState{CgroupUnread, CgroupUnavailable}).Draw(t, "unread"), "EACCES"
		v := Judge(o)
		if v.Tree.Empty && o.Identity.State != IdentityOtherBoot {
			t.Fatalf("empty by errors: %+v", v.Tree)
		}
		if o.Recorded = nil; Judge(o).Exit.Known {
			t.Fatalf("exited by errors: %+v", Judge(o).Exit)
		}
	})
}

// While the manager may start another process in it, a unit is not empty.
func TestUnfinishedUnitIsNeverConfirmed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Isolation, o.InvocationID, o.Identity.State = IsolationService, ourID, IdentitySame
		o.Unit = unit("x/x", "success", 1, 0, o.Unit.ControlGroup, o.Unit.TasksCurrent)
		o.Unit.ActiveState = rapid.SampledFrom([]string{"activating", "deactivating", "reloading", "maintenance", "refreshing", "new"}).Draw(t, "state")
		if v := Judge(o); v.Confirmed || v.Tree.Empty {
			t.Fatalf("confirmed while %s: %+v", o.Unit.ActiveState, v)
		}
	})
}

// On the other rungs the manager's word is heard on identity alone.
func TestOnlyServicesHearTheManager(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Isolation = rapid.SampledFrom(isolations).Draw(t, "rung")
		if o.Unit.InvocationID == otherID {
			o.Unit.InvocationID = ourID
		}
		heard := Judge(o)
		o.Unit = Unit{}
		if alone := Judge(o); heard.Confirmed != alone.Confirmed || heard.Tree.Empty != alone.Tree.Empty || heard.Exit != alone.Exit || heard.Lost != alone.Lost {
			t.Fatalf("with the manager %+v, without %+v", heard, alone)
		}
	})
}
