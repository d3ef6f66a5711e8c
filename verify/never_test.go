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
		later.Kept, later.Group, later.AcceptWeak = drawKept(t), drawGroup(t), true
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
		o.Identity.State, o.Tended = IdentitySame, false // TestTendedRows has who was killed before he could say it
		if o.Cgroup.State == CgroupReplaced {
			o.Cgroup.State = CgroupGone
		}
		switch rapid.IntRange(0, 2).Draw(t, "why") {
		case 0:
			o.InvocationID, o.Abandoned, o.KeeperGone = "", false, false
		case 1:
			o.Isolation = rapid.SampledFrom(isolations).Draw(t, "rung")
			o.Unit.InvocationID, o.KeeperGone = "", false
		case 2:
			o.Unit, o.KeeperGone = Unit{Err: "timeout"}, false
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
		o.Kept, o.Group = nil, Group{}
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
		o.Group.State, o.Group.Err = rapid.SampledFrom([]GroupState{GroupUnread, GroupForeign, GroupUnavailable}).Draw(t, "group unread"), "EPERM"
		if o.Kept != nil {
			o.Kept.Childless = false
		}
		v := Judge(o)
		if v.Tree.Empty && o.Identity.State != IdentityOtherBoot {
			t.Fatalf("empty by errors: %+v", v.Tree)
		}
		if o.Recorded, o.Kept = nil, nil; Judge(o).Exit.Known {
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

// The exit on the other rungs is the keeper's word of this very start.
func TestOnlyTheKeeperOfThisStartIsHeard(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Isolation = rapid.SampledFrom(isolations).Draw(t, "rung")
		switch rapid.IntRange(0, 2).Draw(t, "keeper") {
		case 0:
			o.Kept = nil
		case 1:
			o.Kept = &Kept{Nonce: otherNonce, Exited: true, Childless: true}
		case 2:
			o.Nonce, o.Kept = "", &Kept{Exited: true, Childless: true}
		}
		v := Judge(o)
		if v.Exit.Known || v.Confirmed {
			t.Fatalf("an exit that no keeper of ours saw: %+v", v)
		}
		if rung := exitWitnesses[o.Isolation] != nil; rung && o.Identity.State == IdentitySame && v.Lost != (o.KeeperGone || Judge(o).Lost && stranger(o)) {
			t.Fatalf("keeper gone is %v, lost is %v", o.KeeperGone, v.Lost)
		}
	})
}

// While the keeper of a group lives, no look and no scan empties it.
func TestALivingKeeperAloneEmptiesItsGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.Isolation, o.KeeperGone = IsolationGroup, false
		if o.Kept != nil {
			o.Kept.Childless = false
		}
		if v := Judge(o); o.Identity.State != IdentityOtherBoot && (v.Tree.Empty || v.Confirmed || v.Grade != GradeNone) {
			t.Fatalf("empty by a scan: %+v", v)
		}
	})
}

// What was seen of a group, could not be read, or was not looked through to
// the end keeps it from being empty, whatever is accepted.
func TestASeenOrUnknownProcessIsNeverWeaklyGone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := keptJob(IsolationGroup).exited(0, 0).orphaned().at(goneGroup())
		o.AcceptWeak = true
		switch rapid.IntRange(0, 5).Draw(t, "flaw") {
		case 0:
			o.Group.State = rapid.SampledFrom([]GroupState{GroupUnread, GroupPopulated, GroupForeign, GroupUnavailable, 9}).Draw(t, "state")
		case 1:
			o.Group.Scan.State = rapid.SampledFrom([]ScanState{ScanNone, ScanIncomplete, 9}).Draw(t, "scan")
		case 2:
			o.Group.Members = []Member{survivor}
		case 3:
			o.Group.Scan.Members = []Member{survivor}
		case 4:
			o.Group.Scan.Unreadable = []Member{survivor}
		case 5:
			o.Group.PGID = rapid.IntRange(-1, 1).Draw(t, "pgid")
		}
		if v := Judge(o); v.Confirmed || v.Tree.Empty || v.Grade != GradeNone {
			t.Fatalf("confirmed: %+v", v)
		}
	})
}

// Weak evidence is never confirmed without being accepted, and never called
// proven.
func TestWeakIsNeverProven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := draw(t)
		o.AcceptWeak = false
		unaccepted := Judge(o)
		o.AcceptWeak = true
		accepted := Judge(o)
		if unaccepted.Confirmed && unaccepted.Grade != GradeProven || unaccepted.Confirmed && !accepted.Confirmed {
			t.Fatalf("not accepted %+v, accepted %+v", unaccepted, accepted)
		}
		if accepted.Confirmed && !unaccepted.Confirmed && (accepted.Grade != GradeWeak || unaccepted.Grade != GradeWeak || o.Isolation != IsolationGroup) {
			t.Fatalf("not accepted %+v, accepted %+v", unaccepted, accepted)
		}
	})
}
