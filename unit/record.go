package unit

import (
	"time"

	"github.com/unitward/unitward/verify"
)

// RecordSchema names the version of the record's form.
const RecordSchema = "unitward.job/1"

// Record is what is written down about a job: before the start who it will
// be, after it who it is, and once it is confirmed, the sealed report.
type Record struct {
	Schema   string   `json:"schema"`
	Name     string   `json:"name"`
	Identity Identity `json:"identity"`

	Command []string `json:"command"`
	Cwd     string   `json:"cwd"`
	Owner   string   `json:"owner"`
	// OwnerProcess is the process that the job ends with: of lifetime owner, or
	// of lifetime call where its keeper is another process than the call.
	OwnerProcess Process `json:"owner_process,omitzero"`
	// OwnerUnit is the unit that it ends with in place of a process.
	OwnerUnit  OwnerUnit     `json:"owner_unit,omitzero"`
	Lifetime   Lifetime      `json:"lifetime"`
	Leftovers  Leftovers     `json:"leftovers"`
	Timeout    time.Duration `json:"timeout_ns"`
	Grace      time.Duration `json:"grace_ns"`
	KillSignal int           `json:"kill_signal"`
	Limits     []Limit       `json:"limits,omitempty"`

	// Launcher is the process that starts the job; it completes the record.
	Launcher Process `json:"launcher"`
	// Keeper stays with a job that is no service; zero for a service. Reaper
	// is the process between it and the job.
	Keeper Process `json:"keeper,omitzero"`
	Reaper Process `json:"reaper,omitzero"`
	// Refused says which isolations come before the job's own and were not
	// taken, and why.
	Refused []Refusal `json:"refused,omitempty"`
	// CreatedAt is when the record was made, before the start was requested.
	CreatedAt time.Time `json:"created_at"`
	// StartedAt is when the main process started; nil until known.
	StartedAt *time.Time `json:"started_at,omitempty"`
	// Recorder is true when the unit writes down its own exit.
	Recorder bool `json:"recorder"`
	// Tended is true for a service whose main process is not the job's, but
	// tends it: Identity.PID is then no MainPID.
	Tended bool `json:"tended,omitempty"`
	// KilledAll is true once SIGKILL was, or is about to be, sent to every process
	// of a job that is Tended.
	KilledAll bool `json:"killed_all,omitempty"`
	// Attachable is true for a job whose terminal its keeper holds.
	Attachable bool `json:"attachable,omitempty"`
	// Output is where the output goes.
	Output Output `json:"output,omitempty"`
	// Streams are the caller's own that the job writes to (OutputInherit), by which
	// is seen whether what is left of it holds them; nil where that is not known.
	Streams []File `json:"streams,omitempty"`
	// Left are files that are removed with the job: what the unit needs until its
	// end, and what its launcher hands over and removes by itself if it can.
	Left []string `json:"left,omitempty"`
	// Stop is what was done to end it.
	Stop Stop `json:"stop"`
	// KillDue is when SIGKILL comes, of a stop that its caller has left to the
	// manager or the reaper; nil where it has left none.
	KillDue *time.Time `json:"kill_due,omitempty"`
	// Sealed is the final report; nil until the job is confirmed. The
	// evidence behind it may be gone by the time it is read.
	Sealed *Report `json:"sealed,omitempty"`
}

// Process is a process as it can be recognised later.
type Process struct {
	PID int `json:"pid"`
	// StartTime is in clock ticks since boot (field 22 of proc_pid_stat(5)).
	StartTime uint64 `json:"start_time"`
}

// OwnerUnit is a unit of a manager as it can be recognised later: it has ended when
// its cgroup is gone, is another one, or has no process.
type OwnerUnit struct {
	Unit    string  `json:"unit"`
	Manager Manager `json:"manager"`
	Cgroup  string  `json:"cgroup"`
	Inode   uint64  `json:"inode"`
}

// File is an open file as it can be recognised (stat(2)).
type File struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// Report says what verdict v, reached by observation o, means for the job.
func (r *Record) Report(o verify.Observation, v verify.Verdict) Report {
	rep := Report{
		Schema: ReportSchema, Name: Text(r.Name), Isolation: Text(r.Identity.Isolation), Manager: r.Identity.Manager,
		Unit: Text(r.Identity.Unit), InvocationID: r.Identity.InvocationID, Cgroup: r.Identity.Cgroup,
		BootID: Text(r.Identity.Boot), Host: Text(r.Identity.Host), Command: r.Command, Cwd: Text(r.Cwd),
		Owner: r.Owner, Lifetime: r.Lifetime, PID: Number(r.Identity.PID),
		StartedAt: r.StartedAt, Confirmed: v.Confirmed, Grade: v.Grade,
		Missing: append([]verify.Missing{}, v.Missing...),
		Stop:    r.Stop, Limits: append([]Limit{}, r.Limits...),
		Exit:     exitFact(v.Exit),
		Tree:     TreeFact{Empty: v.Tree.Empty, Source: Text(v.Tree.Source), At: moment(v.Tree.At), Members: append([]verify.Member{}, v.Tree.Members...)},
		Refused:  append([]Refusal{}, r.Refused...),
		LeftUnit: []verify.Member{},
	}
	if far := r.Identity.Far; far != nil {
		rep.Remote, rep.Host, rep.BootID = &far.Remote, Text(far.MachineID), ""
	}
	if r.Identity.Isolation == verify.IsolationGroup {
		rep.Cgroup = "" // recorded to tell strangers by; it is not the job's
	}
	if rep.Stop.Steps == nil {
		rep.Stop.Steps = []Step{}
	}
	if v.Remedy != "" {
		rep.Remedy = &v.Remedy
	}
	rep.State = r.state(o, v)
	rep.Streams = streams(v, r.Output)
	if ended := r.endedAt(o, v); ended != nil {
		rep.EndedAt = ended
		if r.StartedAt != nil {
			ms := max(ended.Sub(*r.StartedAt).Milliseconds(), 0)
			rep.DurationMS = &ms
		}
	}
	if v.Exit.Known {
		reason := r.reason(o, v)
		rep.Reason = &reason
	} else if v.Lost {
		reason := ReasonUnknown
		rep.Reason = &reason
	}
	return rep
}

// StartFailed is the report of a job of which nothing ran.
func (r *Record) StartFailed(at time.Time, detail string) Report {
	v := verify.Verdict{
		Tree:      verify.Tree{Empty: true, Source: "nothing was started", At: at},
		Confirmed: true, Grade: verify.GradeProven,
	}
	rep := r.Report(verify.Observation{At: at}, v)
	reason := ReasonStartFailed
	rep.State, rep.Reason, rep.Exit.Source, rep.EndedAt = StateSettled, &reason, Text(detail), &at
	return rep
}

func (r *Record) state(o verify.Observation, v verify.Verdict) State {
	switch {
	case v.Confirmed:
		return StateSettled
	case v.Lost || o.Identity.State != verify.IdentitySame:
		return StateUnknown
	case r.Stop.RequestedAt != nil:
		return StateStopping
	case v.Exit.Known:
		return StateEnded
	case !r.begun():
		return StateStarting
	case r.kept():
		return StateRunning // its keeper would have told of an end, or be known to be dead
	case o.Unit.Read, o.Cgroup.State == verify.CgroupPopulated:
		return StateRunning
	}
	return StateUnknown
}

// kept is true for a job that a keeper stays with, whose wait is the evidence
// of its exit.
func (r *Record) kept() bool {
	switch r.Identity.Isolation {
	case verify.IsolationScope, verify.IsolationCgroup, verify.IsolationGroup:
		return true
	}
	return false
}

// begun is true once the start is recorded: a service by systemd's id of it,
// the others by their main process, which a keeper starts and names.
func (r *Record) begun() bool {
	if r.kept() {
		return r.Identity.PID != 0
	}
	return r.Identity.InvocationID != ""
}

// endedAt is when the last of the job ended, as far as it is known.
func (r *Record) endedAt(o verify.Observation, v verify.Verdict) *time.Time {
	switch {
	case !v.Confirmed:
		return nil
	case r.kept():
		return keptEnd(o, v)
	case !o.Unit.InactiveEnterAt.IsZero():
		return &o.Unit.InactiveEnterAt
	case o.Recorded != nil:
		return &o.Recorded.At
	}
	return moment(o.At)
}

// keptEnd is when the last of a kept job ended. The keeper, a subreaper, knows
// the moment to which it had no child left; a scope's own times are no evidence.
// After a reboot the exit is the last that was seen, otherwise the tree is
// empty since it was looked at, at the latest.
func keptEnd(o verify.Observation, v verify.Verdict) *time.Time {
	switch k := o.Kept; {
	case k != nil && k.Nonce == o.Nonce && k.Childless && !k.ChildlessAt.IsZero():
		return &k.ChildlessAt
	case o.Identity.State == verify.IdentityOtherBoot:
		return moment(v.Exit.At)
	}
	return moment(v.Tree.At)
}

// reason says why the job ended, from the exit and from systemd's Result,
// which alone would not do: a death by TERM counts as "success" there, and
// "timeout" is also the Result of a stop that had to kill.
func (r *Record) reason(o verify.Observation, v verify.Verdict) Reason {
	result := r.result(o)
	switch {
	case r.TimedOut(o, v):
		return ReasonTimeout
	case r.Stop.By != nil && *r.Stop.By == string(ReasonTimeout):
		return ReasonTimeout
	case result == "oom-kill":
		return ReasonOOM
	case result == string(ReasonOutputLimit), r.Stop.By != nil && *r.Stop.By == string(ReasonOutputLimit):
		return ReasonOutputLimit
	case r.Stop.RequestedAt != nil && !exitAt(o, v).Before(*r.Stop.RequestedAt), r.OwnerEnded(o, v):
		return ReasonCancelled
	case v.Exit.Signal != 0:
		return ReasonSignaled
	case v.Exit.Code != 0:
		return ReasonFailed
	}
	return ReasonCompleted
}

// result is systemd's Result for this start of the unit; empty when it is not
// known.
func (r *Record) result(o verify.Observation) string {
	switch {
	case o.Recorded != nil && o.Recorded.ServiceResult == string(ReasonOutputLimit):
		return o.Recorded.ServiceResult // which systemd does not know of
	case o.Cgroup.OOM:
		return "oom-kill" // in a cgroup of ours, which no manager speaks of
	case o.Unit.Read && o.Unit.InvocationID == r.Identity.InvocationID:
		return o.Unit.Result // also a scope's: its time can be up and its memory out
	case o.Recorded != nil:
		return o.Recorded.ServiceResult
	}
	return ""
}

// TimedOut reports whether systemd ended the job because its time was up.
// Result=timeout alone does not say so: a stop that had to kill has it too. And
// where the main process had failed before, Result tells of that (ExitType=cgroup):
// then a unit that was there when its time was up was ended by it.
func (r *Record) TimedOut(o verify.Observation, v verify.Verdict) bool {
	if r.Timeout == 0 || r.ranFor(o, v) < r.Timeout {
		return false
	}
	switch r.result(o) {
	case "timeout":
		return true
	case "exit-code", "signal", "core-dump":
		return r.Leftovers == LeftoversWait && r.Identity.Isolation == verify.IsolationService && r.Stop.RequestedAt == nil
	}
	return false
}

// OwnerEnded reports whether the end of its owner ended the job, by the manager
// (Lifetime owner): the owner was gone when the recorder ran, and the main
// process died of what a stop sends.
func (r *Record) OwnerEnded(o verify.Observation, v verify.Verdict) bool {
	if r.Lifetime != LifetimeOwner || o.Recorded == nil || !o.Recorded.OwnerGone || o.Recorded.InvocationID != r.Identity.InvocationID {
		return false
	}
	stopped := r.KillSignal
	if stopped == 0 {
		stopped = sigTerm
	}
	return v.Exit.Known && (v.Exit.Signal == stopped || v.Exit.Signal == sigKill)
}

const (
	sigKill = 9
	sigTerm = 15
)

// exitAt is when the main process ended, or at the latest ended: the evidence
// may know no more than when it was looked at.
func exitAt(o verify.Observation, v verify.Verdict) time.Time {
	same := o.Unit.Read && o.Unit.InvocationID == o.InvocationID
	told := o.Unit.InvocationID == "" && o.Recorded != nil
	if (same || told) && !o.Unit.MainExitAt.IsZero() {
		return o.Unit.MainExitAt
	}
	return v.Exit.At
}

// ranFor is how long the timeout had to fire in: to the main process's end,
// or to the unit's where the job is its whole tree.
func (r *Record) ranFor(o verify.Observation, v verify.Verdict) time.Duration {
	if r.StartedAt == nil {
		return 0
	}
	began := *r.StartedAt
	if r.kept() && !r.CreatedAt.IsZero() {
		began = r.CreatedAt // the scope's clock runs before its command does
	}
	end := v.Exit.At
	switch {
	case r.Leftovers != LeftoversKill && !o.Unit.InactiveEnterAt.IsZero():
		end = o.Unit.InactiveEnterAt
	case r.Leftovers != LeftoversKill && o.Recorded != nil && !o.Recorded.At.IsZero():
		end = o.Recorded.At // it is the unit's last process
	case !o.Unit.MainExitAt.IsZero():
		end = o.Unit.MainExitAt
	}
	return end.Sub(began)
}

func exitFact(e verify.Exit) ExitFact {
	f := ExitFact{Known: e.Known, CoreDumped: e.CoreDumped, Source: Text(e.Source), At: moment(e.At)}
	switch {
	case !e.Known:
		f.At = nil
	case e.Signal != 0:
		name := verify.SignalName(e.Signal)
		f.Signal = &name
	default:
		f.Code = &e.Code
	}
	return f
}

func streams(v verify.Verdict, output Output) StreamsFact {
	s := StreamsFact{State: "open", At: moment(v.Tree.At)}
	switch {
	case v.Tree.Empty:
		s.State = "closed" // no process of the job is left that could write
	case v.Exit.Known && output == OutputNull:
		s.State = "closed" // there is nothing to hold
	case v.Exit.Known:
		s.State = "held"
	}
	return s
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
