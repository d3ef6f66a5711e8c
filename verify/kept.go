package verify

import (
	"fmt"
	"time"
)

// Kept is what the job's keeper saw and wrote down. On the rungs scope, cgroup
// and group it is the only evidence of the exit: the keeper alone waits for
// the main process there.
type Kept struct {
	// Nonce is the number of the start that the keeper kept: it must be
	// Observation.Nonce to count.
	Nonce string
	// Exited is true once the keeper's own wait returned the end of the main
	// process. Code, Signal and CoreDumped are meaningless before.
	Exited bool
	// Code is the exit code, 0 to 255, when Signal is 0.
	Code int
	// Signal is the number of the signal that ended it, 1 to 64; 0 when it
	// exited.
	Signal int
	// CoreDumped is true when the signal dumped core.
	CoreDumped bool
	// ExitAt is when the wait returned; zero when that was not noted.
	ExitAt time.Time
	// Childless is true once a subreaper between the keeper and the job, or
	// the keeper as one, was told ECHILD by waitid(P_ALL) after the main
	// process was started: no descendant is left (PR_SET_CHILD_SUBREAPER(2const)).
	Childless bool
	// ChildlessAt is when that was; zero when it was not noted.
	ChildlessAt time.Time
	// Source names who waited and how; empty means "keeper wait".
	Source string
}

// keeps is true on the rungs where a keeper stays with the job and its wait is
// the evidence of the exit: never a recorder of systemd's, never a property
// of a unit.
func (j judge) keeps() bool { return j.rung() && !j.service() }

// tended is true for a service with a process between its main process and the
// job's, whose word on the job's exit comes before the manager's.
func (j judge) tended() bool { return j.service() && j.o.Tended }

// kept is what the keeper of this very start wrote down; nil when that is
// nothing. It survives the boot that it was written in.
func (j judge) kept() *Kept {
	k := j.o.Kept
	if k == nil || !j.keeps() && !j.tended() || j.o.Nonce == "" || k.Nonce != j.o.Nonce ||
		j.o.Identity.State != IdentitySame && j.o.Identity.State != IdentityOtherBoot {
		return nil
	}
	return k
}

// possible is true for an end that wait(2) can return. What reads otherwise
// was not written by a keeper.
func (k *Kept) possible() bool {
	if k.Signal == 0 {
		return k.Code >= 0 && k.Code <= 255 && !k.CoreDumped
	}
	return k.Signal >= 1 && k.Signal <= sigRTMax && k.Code == 0
}

func (k *Kept) source() string {
	if k.Source == "" {
		return "keeper wait"
	}
	return oneLine(k.Source)
}

func (j judge) keptExit() (Exit, bool) {
	k := j.kept()
	if k == nil || !k.Exited || !k.possible() {
		return Exit{}, false
	}
	e := Exit{Known: true, Code: k.Code, Signal: k.Signal, CoreDumped: k.CoreDumped, At: k.ExitAt}
	switch {
	case k.Signal == 0:
		e.Source = fmt.Sprintf("%s: exit code %d", k.source(), k.Code)
	case k.CoreDumped:
		e.Source = fmt.Sprintf("%s: signal %d, core dumped", k.source(), k.Signal)
	default:
		e.Source = fmt.Sprintf("%s: signal %d", k.source(), k.Signal)
	}
	if e.At.IsZero() {
		e.At = j.o.At
	}
	return e, true
}

// childless is true when no descendant of the keeper is left, by its own word.
func (j judge) childless() bool {
	k := j.kept()
	return k != nil && k.Childless
}

// orphaned is true when the exit was the keeper's alone to see, and it is dead.
func (j judge) orphaned() bool { return j.keeps() && j.o.KeeperGone }

// keeperOnExit is what the keeper's record lacks for an exit.
func (j judge) keeperOnExit() (looked, said string) {
	k := j.kept()
	switch {
	case j.o.Kept != nil && j.o.Nonce == "":
		said = "no number of the start was recorded to compare its record with"
	case j.o.Kept != nil && k == nil:
		said = fmt.Sprintf("its record is of the start %q, this one is %q", j.o.Kept.Nonce, j.o.Nonce)
	case k != nil && k.Exited:
		said = fmt.Sprintf("it wrote down the impossible code=%d signal=%d core=%v", k.Code, k.Signal, k.CoreDumped)
	case j.orphaned():
		return "keeper", keeperDied
	default:
		said = "it has not written down that the main process ended"
	}
	if j.orphaned() {
		said += ", and it is dead"
	}
	return "keeper", said
}

const keeperDied = "the keeper died before it saw the main process end"
