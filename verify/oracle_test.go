package verify

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// The evidence rule of design §2, stated as its table states it and not as
// judge.go computes it: for each isolation, what proves an exit and what
// proves an empty tree. A fact holds when one witness speaks for it, and no
// witness is heard about a job that is not the recorded one.

type witness func(Observation) bool

var exitWitnesses = map[string][]witness{
	"service": {all(managerReaped, not(tenderKilled)), all(jobRecorder, not(recorderSawTender)), all(isTended, keeperWaited)},
	"scope":   {keeperWaited},
	"cgroup":  {keeperWaited},
	"group":   {keeperWaited},
}

var treeWitnesses = map[string][]witness{
	"service": {
		all(managerAtRest, not(seesProcesses), tasksCurrentZero),
		all(managerAtRest, ownReadEmpty),
		all(managerAtRest, ownReadGone),
		all(managerAtRest, not(seesProcesses), controlGroupReleased),
	},
	"scope":  {ownReadEmpty, ownReadGone},
	"cgroup": {ownReadGone}, // populated 0, then a successful rmdir
	"group":  {keeperChildless, all(weakEvidence, accepted)},
}

func all(ws ...witness) witness {
	return func(o Observation) bool {
		return !slices.ContainsFunc(ws, func(w witness) bool { return !w(o) })
	}
}

func not(w witness) witness { return func(o Observation) bool { return !w(o) } }

// stranger: identity, checked before anything is believed.
func stranger(o Observation) bool {
	otherStart := o.Unit.Read && o.InvocationID != "" && o.Unit.InvocationID != "" && o.Unit.InvocationID != o.InvocationID
	return o.Identity.State != IdentitySame || otherStart || o.Cgroup.State == CgroupReplaced
}

// sameStart: "LoadState and InvocationID come first".
func sameStart(o Observation) bool {
	return o.Unit.Read && o.InvocationID != "" && o.Unit.InvocationID == o.InvocationID
}

func managerReaped(o Observation) bool {
	s := o.Unit.ExecMainStatus
	possible := map[int32]bool{1: 0 <= s && s < 256, 2: 0 < s && s < 65, 3: 0 < s && s < 65}
	return !stranger(o) && sameStart(o) && o.Unit.LoadState == "loaded" && possible[o.Unit.ExecMainCode]
}

func isTended(o Observation) bool { return o.Tended }

// tenderKilled: what was killed is not the job's main process, which runs, or
// may end in a way of its own, unless all got it. A recorder that saw it is believed
// before a manager that saw something else.
func tenderKilled(o Observation) bool {
	return o.Tended && !allKilled(o) && (o.Unit.ExecMainCode > 1 && o.Unit.ExecMainStatus == 9 || jobRecorder(o) && recorderSawTender(o))
}

// recorderSawTender is tenderKilled in the words of the recorder.
func recorderSawTender(o Observation) bool {
	n, _ := SignalNumber(o.Recorded.ExitStatus)
	return o.Tended && !allKilled(o) && o.Recorded.ExitCode != "exited" && n == 9
}

func allKilled(o Observation) bool {
	return o.KilledAll ||
		sameStart(o) && o.Unit.LoadState == "loaded" && !stranger(o) && o.Unit.Result == "timeout" ||
		o.Recorded != nil && o.Recorded.InvocationID == o.InvocationID && o.Recorded.ServiceResult == "timeout"
}

// managerAtRest: "unit inactive". A manager that is silent, or does not know
// the start, has nothing to withhold.
func managerAtRest(o Observation) bool {
	if !sameStart(o) {
		return true
	}
	switch o.Unit.SubState {
	case "dead-before-auto-restart", "failed-before-auto-restart":
		return false
	case "exited":
		return slices.Contains([]string{"active", "inactive", "failed"}, o.Unit.ActiveState)
	}
	return o.Unit.ActiveState == "inactive" || o.Unit.ActiveState == "failed"
}

func seesProcesses(o Observation) bool { return o.Cgroup.State == CgroupPopulated }
func ownReadEmpty(o Observation) bool  { return o.Cgroup.State == CgroupEmpty }
func ownReadGone(o Observation) bool   { return o.Cgroup.State == CgroupGone }

// tasksCurrentZero: a literal 0, which only a unit with a cgroup can have.
func tasksCurrentZero(o Observation) bool {
	return sameStart(o) && o.Unit.LoadState == "loaded" && o.Unit.TasksCurrent == 0 && len(o.Unit.ControlGroup) > 0
}

func controlGroupReleased(o Observation) bool {
	return managerReaped(o) && o.Unit.ControlGroup == "" && o.Unit.ManagerVersion > 246
}

func jobRecorder(o Observation) bool {
	r := o.Recorded
	if r == nil || r.InvocationID == "" || r.InvocationID != o.InvocationID {
		return false
	}
	if o.Identity.State != IdentitySame && o.Identity.State != IdentityOtherBoot {
		return false
	}
	switch r.ExitCode {
	case "exited":
		return decimal(r.ExitStatus, 0, 255)
	case "killed", "dumped":
		return decimal(r.ExitStatus, 1, 64) || namesSignal(r.ExitStatus)
	}
	return false
}

// sameKeeper: only the keeper of the recorded start is heard, also after a
// reboot.
func sameKeeper(o Observation) bool {
	here := o.Identity.State == IdentitySame || o.Identity.State == IdentityOtherBoot
	return here && o.Kept != nil && len(o.Nonce) > 0 && o.Kept.Nonce == o.Nonce
}

// keeperWaited: what wait(2) can say, and no more.
func keeperWaited(o Observation) bool {
	if !sameKeeper(o) || !o.Kept.Exited {
		return false
	}
	k := *o.Kept
	byExit := k.Signal == 0 && !k.CoreDumped && k.Code == int(uint8(k.Code))
	bySignal := k.Code == 0 && k.Signal > 0 && k.Signal < 65
	return byExit || bySignal
}

// A group has no cgroup of its own; one that is seen populated withholds.
func keeperChildless(o Observation) bool {
	return sameKeeper(o) && o.Kept.Childless && !seesProcesses(o)
}

// weakEvidence: "after the keeper's death only: group gone (ESRCH) and a
// complete marker scan".
func weakEvidence(o Observation) bool {
	g := o.Group
	nobody := g.Members == nil && g.Scan.Members == nil && g.Scan.Unreadable == nil
	return o.KeeperGone && !seesProcesses(o) && g.State == GroupGone && g.PGID > 1 && g.Scan.State == ScanComplete && nobody
}

func accepted(o Observation) bool { return o.AcceptWeak }

func decimal(s string, least, most int) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	n, err := strconv.Atoi(s)
	return err == nil && n >= least && n <= most
}

// namesSignal asks Go's own table, and spells the real-time ones out.
func namesSignal(s string) bool {
	if len(s) < 3 || s[:3] != "SIG" {
		s = "SIG" + s
	}
	if s == "SIGIOT" || s == "SIGCLD" || s == "SIGPOLL" { // systemd never writes these
		return false
	}
	if s == "SIGRTMIN" || s == "SIGRTMAX" || unix.SignalNum(s) != 0 {
		return true
	}
	return len(s) > 9 && (s[:9] == "SIGRTMIN+" || s[:9] == "SIGRTMAX-") && decimal(s[9:], 0, 30)
}

// proven is what the table says of an observation.
func proven(o Observation) (exit, empty bool) {
	heard := func(ws []witness) bool {
		return slices.ContainsFunc(ws, func(w witness) bool { return w(o) })
	}
	exit = heard(exitWitnesses[o.Isolation])
	switch {
	case o.Identity.State == IdentityOtherBoot: // the processes are gone with their boot
		empty = true
	case !stranger(o):
		empty = heard(treeWitnesses[o.Isolation])
	}
	return exit, empty
}

// graded is the strength of what proven found, or could find if weak evidence
// were accepted.
func graded(o Observation) Grade {
	exit, empty := proven(o)
	o.AcceptWeak = false
	_, strong := proven(o)
	o.AcceptWeak = true
	_, weak := proven(o)
	switch {
	case exit && empty && strong:
		return GradeProven
	case exit && weak:
		return GradeWeak
	}
	return GradeNone
}
