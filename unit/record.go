package unit

import (
	"time"
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
	// KillDue is when the manager or the reaper sends SIGKILL: of a stop that was
	// left to them, or whose caller does not live to do so; nil where none is due.
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
