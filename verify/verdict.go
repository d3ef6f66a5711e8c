package verify

import "time"

// Grade says how strong the evidence behind a verdict is.
type Grade string

const (
	// GradeProven means that each fact rests on the kernel's or the
	// manager's own word about the recorded identity.
	GradeProven Grade = "proven"
	// GradeWeak means that the exit is known and that the tree's emptiness
	// rests on a scan that a process can evade. It confirms only where it is
	// accepted (Observation.AcceptWeak).
	GradeWeak Grade = "weak"
	// GradeNone means that at least one fact is not established, not even
	// weakly.
	GradeNone Grade = "none"
)

// What a verdict can miss, in the order in which it is listed.
const (
	MissingExit     = "exit evidence"
	MissingInactive = "unit inactive"
	MissingEmpty    = "empty unit"
)

// Exit is how the main process ended.
type Exit struct {
	// Known is false while there is no evidence; the other fields are then
	// meaningless.
	Known bool
	// Code is the exit code when Signal is 0.
	Code int
	// Signal is the number of the signal that ended it; 0 when it exited.
	Signal int
	// CoreDumped is true when the signal dumped core.
	CoreDumped bool
	// Source names the evidence.
	Source string
	// At is when the evidence was obtained.
	At time.Time
}

// Tree is whether any process is left in the unit.
type Tree struct {
	// Empty is true only on proof, or on weak evidence that was accepted.
	Empty bool
	// Source names the evidence for Empty, or what was seen instead.
	Source string
	// At is when it was looked at, or when the keeper saw it.
	At time.Time
	// Members are survivors that were seen; never a complete list.
	Members []Member
}

// Missing is one piece of evidence that a confirmation lacks.
type Missing struct {
	// What is MissingExit, MissingInactive or MissingEmpty.
	What string `json:"what"`
	// Looked names what was looked at.
	Looked string `json:"looked"`
	// Said is what it answered.
	Said string `json:"said"`
}

// Verdict is what an observation proves.
type Verdict struct {
	Exit Exit
	Tree Tree
	// Confirmed is true when the exit is known and the tree is empty.
	Confirmed bool
	Grade     Grade
	// Missing lists what a confirmation lacks; empty when Confirmed.
	Missing []Missing
	// Lost is true when no later look can ever supply what is missing (the
	// manager died, the host rebooted, the record is not ours to judge).
	Lost bool
	// Remedy says in one sentence what can be done; empty when Confirmed.
	Remedy string
}
