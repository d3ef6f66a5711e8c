package verify

import (
	"fmt"
	"slices"
	"time"
)

// TasksUnset is what systemd reports in TasksCurrent when a unit has no cgroup
// or the pids controller is not enabled for it. It is unknown, never zero
// (org.freedesktop.systemd1(5), "[not set]").
const TasksUnset = ^uint64(0)

// The rungs of the isolation ladder, as they stand in records and reports.
const (
	IsolationService = "service"
	IsolationScope   = "scope"
	IsolationCgroup  = "cgroup"
	IsolationGroup   = "group"
)

// Observation is everything that was looked at in one look at a job. A zero
// field means "not looked at", which is never evidence of anything (but see
// Unit.TasksCurrent).
//
// The order of looking matters, because the job goes on meanwhile: the unit
// first, then the recorded exit, which is written before the unit comes to
// rest, so that it is not missed and called lost; the cgroup last, because
// emptiness counts only after everything that can still start a process. Where
// a keeper stays with the job: whether it lives first, and then what it kept,
// so that an end that it wrote down as its last deed is not called lost.
type Observation struct {
	// Name is the job's name, for the commands that a remedy proposes.
	Name string
	// Isolation is the rung the job was started on; it selects which evidence
	// counts (a scope's ActiveState, for one, never does).
	Isolation string
	// InvocationID is the one recorded at the start; empty when the start
	// never got as far. Only a unit or a recorder with the same one counts.
	InvocationID string
	// Abandoned is true when the start was not recorded to its end and the
	// process that should have done it is gone: what the record lacks will
	// never be added.
	Abandoned bool
	// At is when the observation was made.
	At time.Time
	// Identity says whether what was looked at is still what was started.
	Identity Identity
	// Unit is the manager's word on the unit.
	Unit Unit
	// Cgroup is our own read of the recorded cgroup.
	Cgroup Cgroup
	// Recorded is the exit written down by a service's own recorder; nil when
	// there is none.
	Recorded *Recorded

	// Tended is true for a service whose main process only tends the job's: it
	// ends as the job's did, but for its own death by SIGKILL.
	Tended bool
	// KilledAll is true when unitward sent SIGKILL to every process of such a
	// service: then what ended who tends the job ended the job too.
	KilledAll bool

	// Nonce is the recorded number of this start, Kept what the job's keeper
	// wrote down (nil when it has written nothing), and Group a look at the
	// owned process group. The first two count on the rungs scope, cgroup and
	// group, and for a service that is Tended, the last on group alone.
	Nonce string
	Kept  *Kept
	Group Group
	// KeeperGone is true when the keeper, and the process it put between
	// itself and the job, are known to be dead, or to never have been: what
	// Kept lacks will never be added.
	KeeperGone bool
	// Stopping is true when an end of the job was asked for and is not proven
	// yet: a process in uninterruptible sleep is then what holds it up. Of a
	// service the manager says so itself.
	Stopping bool
	// AcceptWeak is true when whoever asks takes evidence of GradeWeak for an
	// empty group.
	AcceptWeak bool
}

// Survivor is true when a process that can still run was positively seen. A
// count or an answer to signal 0 can be a zombie's.
func (o Observation) Survivor() bool {
	if o.Isolation != IsolationGroup {
		return o.Cgroup.State == CgroupPopulated
	}
	lives := func(m Member) bool { return m.State != "Z" }
	return slices.ContainsFunc(o.Group.Members, lives) || slices.ContainsFunc(o.Group.Scan.Members, lives)
}

// IdentityState is the outcome of comparing a record with the present.
type IdentityState int

const (
	// IdentityUnchecked is the zero value: host, boot and user were not
	// compared. Nothing is believed.
	IdentityUnchecked IdentityState = iota
	// IdentitySame means host, boot and user are the recorded ones.
	IdentitySame
	// IdentityChanged means that something else answers to the recorded
	// identity, such as another start time for the same pid. Nothing seen
	// there is about the job. (Another InvocationID and another inode are
	// found by Judge itself.)
	IdentityChanged
	// IdentityOtherBoot means the record is of an earlier boot of this host:
	// its processes are gone with that boot.
	IdentityOtherBoot
	// IdentityForeign means the record is of another host or another user:
	// nothing can be said from here.
	IdentityForeign
)

// Identity is the outcome of the identity check, with what was compared.
type Identity struct {
	State IdentityState
	// Detail says what was compared and what it said; it is shown to the user.
	Detail string
}

// Unit is one reading of a unit's properties from its manager. Where they are
// not read in one call, ActiveState is read first and InvocationID last:
// otherwise a change in between makes a state that never was.
type Unit struct {
	// Read is true when the manager answered. When false, Err says why and
	// every other field is meaningless.
	Read bool
	// Err is the reason why nothing could be read.
	Err string
	// ManagerVersion is systemd's major version; 0 when unknown.
	ManagerVersion int

	// LoadState, ActiveState, SubState and Result are the unit's properties
	// of these names. A collected unit reads not-found, inactive, dead and
	// success.
	LoadState, ActiveState, SubState, Result string
	// InvocationID is 32 hexadecimal digits, or empty for a unit that was
	// not started since the manager began.
	InvocationID string
	// ExecMainCode is siginfo's si_code for the main process: 1 exited, 2
	// killed, 3 dumped core; 0 means never reaped (waitid(2)).
	ExecMainCode int32
	// ExecMainStatus is the exit code for ExecMainCode 1, else the signal.
	ExecMainStatus int32
	// ControlGroup is the unit's cgroup below the cgroup root; empty when
	// the manager holds none for it.
	ControlGroup string
	// TasksCurrent is the number of tasks in the unit, or TasksUnset. Code
	// that does not ask for it sets TasksUnset.
	TasksCurrent uint64
	// MainStartAt and MainExitAt are when the main process started and ended,
	// and InactiveEnterAt is when the unit became inactive or failed; zero
	// when that has not happened. They date an end, they never prove one.
	MainStartAt, MainExitAt, InactiveEnterAt time.Time
}

// CgroupState is what our own read of the recorded cgroup said.
type CgroupState int

const (
	// CgroupUnread is the zero value: no cgroup is recorded or nobody looked.
	CgroupUnread CgroupState = iota
	// CgroupPopulated means cgroup.events said "populated 1".
	CgroupPopulated
	// CgroupEmpty means cgroup.events said "populated 0" in the recorded
	// inode.
	CgroupEmpty
	// CgroupGone means the directory does not exist while its parent, on a
	// cgroup2 file system, does. A cgroup with a member cannot be removed, so
	// this is proof (cgroups(7)).
	CgroupGone
	// CgroupReplaced means another inode stands at the recorded path: what is
	// there now is not ours to judge.
	CgroupReplaced
	// CgroupUnavailable means the read failed; Err says how.
	CgroupUnavailable
)

// Cgroup is our own reading of the recorded cgroup.
type Cgroup struct {
	State CgroupState
	// Path is the cgroup's path below the cgroup root.
	Path string
	// Err says why State is CgroupUnavailable.
	Err string
	// Listed is true for a cgroup of version 1, which has no cgroup.events: it is
	// populated when cgroup.procs lists Members, and empty when it lists nobody.
	Listed bool
	// OOM is true when the kernel killed a member of a cgroup of ours for lack
	// of memory (memory.events). It says why an end came and proves none.
	OOM bool
	// Members are the processes found in it, for CgroupPopulated; it may be
	// short of some (other pid namespaces) and proves nothing when empty.
	Members []Member
}

// occupied is what was looked at of a populated cgroup, and what it said.
func (c Cgroup) occupied() (looked, said string) {
	if c.Listed {
		return "cgroup.procs", fmt.Sprintf("lists %d", len(c.Members))
	}
	return "cgroup.events", "populated 1"
}

// unoccupied is the same of an empty cgroup.
func (c Cgroup) unoccupied() (looked, said string) {
	if c.Listed {
		return "cgroup.procs", "lists nobody, and no cgroup is below"
	}
	return "cgroup.events", "populated 0"
}

// Member is one process found in a unit.
type Member struct {
	// PID is the process's number in our pid namespace.
	PID int `json:"pid"`
	// Command is its command line, cut to 256 bytes, or its comm in brackets.
	Command string `json:"command"`
	// State is the letter of proc_pid_stat(5): R, S, D, T, Z …
	State string `json:"state"`
	// Wchan is the kernel function a process in state D sleeps in, when it
	// can be read; else empty.
	Wchan string `json:"wchan,omitempty"`
	// AgeMS is for how long it runs, in milliseconds; 0 is not known.
	AgeMS int64 `json:"age_ms,omitempty"`
	// MemoryBytes is its resident set; 0 is none, or not known.
	MemoryBytes int64 `json:"memory_bytes,omitempty"`
	// Cgroup is where it is, for a process that has left its unit; else empty.
	Cgroup string `json:"cgroup,omitempty"`
}

// Recorded is the exit status as systemd handed it to the job's recorder
// (ExecStopPost=, systemd.exec(5) "$EXIT_CODE").
type Recorded struct {
	// InvocationID is $INVOCATION_ID: it must be the recorded one to count.
	InvocationID string
	// ExitCode is "exited", "killed" or "dumped"; empty when the main process
	// did not run.
	ExitCode string
	// ExitStatus is the number, for "exited", else the signal's name without
	// SIG.
	ExitStatus string
	// ServiceResult is $SERVICE_RESULT.
	ServiceResult string
	// OwnerGone is true when the process that the job was to end with was gone
	// by then.
	OwnerGone bool
	// MemoryPeak, in bytes, and TasksPeak are the most that the unit had; nil is
	// not known. They prove nothing.
	MemoryPeak, TasksPeak *uint64
	// Cgroup is the unit's cgroup below the cgroup root as the recorder saw it, who
	// ran in it, and CgroupInode the inode number of its directory; empty and 0 where
	// it saw none.
	Cgroup      string
	CgroupInode uint64
	// At is when the recorder ran.
	At time.Time
	// Source names who else handed it over, such as the manager's own signal;
	// empty means "recorder".
	Source string
}
