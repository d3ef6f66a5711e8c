package verify

import (
	"fmt"
	"strings"
)

// remedy says what can be done about an unconfirmed verdict: a command to run,
// or that none can help. It follows from what is missing: nothing is called
// running or left that was not seen.
func (j judge) remedy(v Verdict) string {
	switch j.o.Identity.State {
	case IdentitySame:
	case IdentityForeign:
		return "none can help from here: " + j.detail()
	case IdentityOtherBoot:
		return "none can help: the host was rebooted; the processes are gone and the outcome is unknown"
	case IdentityChanged:
		return "none can help: " + j.detail()
	default:
		return "whose record this is was not compared; run: " + j.command("verify")
	}
	if j.replaced() {
		return "none can help: " + j.identity()
	}
	if m, ok := j.uninterruptible(); ok && !j.running(v) {
		return fmt.Sprintf("process %d is in uninterruptible sleep (%s) and no signal can end it; once it wakes, run: %s",
			m.PID, state(m), j.command("verify"))
	}
	switch {
	case v.Lost:
		return j.remedyForLost(v)
	case v.Exit.Known:
		return j.remedyForTree()
	case j.service() && !j.o.Unit.Read && j.o.Unit.Err != "":
		return "the manager does not answer; when it does, run: " + j.command("verify")
	case j.service() && !j.o.Unit.Read:
		return "the manager was not asked; run: " + j.command("verify")
	case j.service() && j.o.InvocationID == "":
		return "the start was not recorded to its end; run: " + j.command("verify")
	case !v.Tree.Empty && (j.survivors() || j.unfinished()):
		return "the job has not ended; await it with: " + j.command("wait")
	case v.Tree.Empty:
		return "the exit is not recorded, or not yet; run: " + j.command("verify")
	}
	return "nothing says whether the job has ended; run: " + j.command("verify")
}

// remedyForLost is for an exit status that is gone for good.
func (j judge) remedyForLost(v Verdict) string {
	why := "the manager never reaped the main process"
	switch {
	case j.orphaned():
		why = keeperDied
	case j.abandoned():
		why = "the launcher died before it recorded the start, and the manager has no such unit"
	case j.untold(v.Tree):
		why = "who tended the main process was killed before he could say how that ended"
	case !j.forgotten():
	case j.o.Unit.LoadState == "loaded":
		why = "the manager was restarted and lost the exit status"
	default:
		why = "the manager dropped the unit and its exit status"
	}
	switch {
	case v.Tree.Empty:
		return "none can help: " + why + "; the outcome is unknown"
	case j.o.Isolation == IsolationGroup:
		return why + ", and no command can bring the exit status back; " + j.remedyForGroup()
	case j.survivors():
		return why + ", which no command can bring back; end what is left with: " + j.command("stop")
	}
	return why + ", which no command can bring back; to see whether processes are left, run: " + j.command("verify")
}

// remedyForTree is for a known exit without proof of an empty unit.
func (j judge) remedyForTree() string {
	switch {
	case j.o.Isolation == IsolationGroup:
		return j.remedyForGroup()
	case j.survivors() && j.unfinished():
		return "processes are left; await them with: " + j.command("wait") + ", or end them with: " + j.command("stop")
	case j.survivors():
		return "processes are left; end them with: " + j.command("stop")
	case j.unfinished():
		return "the unit has not come to rest; await it with: " + j.command("wait")
	case j.o.Isolation == IsolationCgroup && j.o.Cgroup.State == CgroupEmpty:
		return "the empty cgroup is still there; remove it with: " + j.command("stop")
	case j.o.Cgroup.State == CgroupUnavailable:
		return "the cgroup cannot be read; run as a user who can: " + j.command("verify")
	}
	return "nothing says whether processes are left; run: " + j.command("verify")
}

// survivors is true when processes were seen, by us or by the manager. The
// manager's count includes those that ended and were not reaped yet.
func (j judge) survivors() bool {
	u := j.o.Unit
	return j.populated() || j.groupSeen() || j.ours() && u.TasksCurrent != 0 && u.TasksCurrent != TasksUnset
}

// running is true while the job is not yet to end: a process that waits for a
// disk is then nothing unusual.
func (j judge) running(v Verdict) bool {
	if j.keeps() {
		return !v.Exit.Known && !j.o.KeeperGone && !j.o.Stopping
	}
	return j.unfinished() && j.o.Unit.ActiveState != "deactivating"
}

// seen are the processes of the job that were seen.
func (j judge) seen() []Member {
	switch {
	case j.populated():
		return j.o.Cgroup.Members
	case j.groupSeen():
		_, _, seen := j.lookedAtGroup()
		return seen
	}
	return nil
}

func (j judge) uninterruptible() (Member, bool) {
	for _, m := range j.seen() {
		if m.State == "D" {
			return m, true
		}
	}
	return Member{}, false
}

// command is a command line that can be pasted into a shell.
func (j judge) command(verb string) string {
	return "unitward " + verb + " " + Typed(j.o.Name)
}

// Typed is the name of a job or unit as it is typed in a shell: one such as
// foo\x2dbar needs quotes.
func Typed(name string) string {
	plain := !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:_.-@", r)
	})
	if plain && name != "" {
		return name
	}
	return "'" + strings.ReplaceAll(oneLine(name), "'", `'\''`) + "'"
}
