package unit

import (
	"slices"
	"time"

	"github.com/unitward/unitward/verify"
)

// ReportSchema names the version of the report's form.
const ReportSchema = "unitward.report/1"

// State is where a job stands.
type State string

const (
	// StateStarting means: recorded, and not yet known to run.
	StateStarting State = "starting"
	// StateRunning means: the main process runs.
	StateRunning State = "running"
	// StateStopping means: a stop was requested and is not proven yet.
	StateStopping State = "stopping"
	// StateEnded means: the exit is known, the tree is not proven empty.
	StateEnded State = "ended"
	// StateSettled means: confirmed and sealed.
	StateSettled State = "settled"
	// StateUnknown means: the evidence does not say.
	StateUnknown State = "unknown"
)

// Reason is why a job ended. A number never stands for a reason.
type Reason string

const (
	// ReasonCompleted is an exit with code 0.
	ReasonCompleted Reason = "completed"
	// ReasonFailed is an exit with another code.
	ReasonFailed Reason = "failed"
	// ReasonSignaled is an end by a signal that nobody here sent.
	ReasonSignaled Reason = "signaled"
	// ReasonTimeout is an end because the time of Spec.Timeout was up.
	ReasonTimeout Reason = "timeout"
	// ReasonOOM is an end because memory was out.
	ReasonOOM Reason = "oom"
	// ReasonOutputLimit is an end because the job wrote too much.
	ReasonOutputLimit Reason = "output-limit"
	// ReasonCancelled is an end that was asked for.
	ReasonCancelled Reason = "cancelled"
	// ReasonStartFailed is a job of which nothing ran.
	ReasonStartFailed Reason = "start-failed"
	// ReasonUnknown is an end whose evidence is lost.
	ReasonUnknown Reason = "unknown"
)

// Report is what is known of a job, the same object wherever unitward speaks
// of one.
type Report struct {
	Schema string `json:"schema"`
	Name   Text   `json:"name"`
	State  State  `json:"state"`
	// Paused is true when the job was seen to be paused while it runs.
	Paused    bool `json:"paused,omitempty"`
	Isolation Text `json:"isolation"`
	// Refused says which isolations come before Isolation and were not
	// taken, and why.
	Refused []Refusal `json:"refused"`
	Manager Manager   `json:"manager,omitempty"`
	// Remote is where the manager is; nil for one of this machine's own.
	Remote       *Remote          `json:"remote,omitempty"`
	Unit         Text             `json:"unit"`
	InvocationID string           `json:"invocation_id,omitempty"`
	Cgroup       string           `json:"cgroup,omitempty"`
	BootID       Text             `json:"boot_id"`
	Host         Text             `json:"host"`
	Command      []string         `json:"command"`
	Cwd          Text             `json:"cwd"`
	Owner        string           `json:"owner"`
	Lifetime     Lifetime         `json:"lifetime"`
	PID          Number           `json:"pid"`
	StartedAt    *time.Time       `json:"started_at"`
	EndedAt      *time.Time       `json:"ended_at"`
	DurationMS   *int64           `json:"duration_ms"`
	Reason       *Reason          `json:"reason"`
	Exit         ExitFact         `json:"exit"`
	Streams      StreamsFact      `json:"streams"`
	Tree         TreeFact         `json:"tree"`
	Confirmed    bool             `json:"confirmed"`
	Grade        verify.Grade     `json:"grade"`
	Missing      []verify.Missing `json:"missing"`
	Remedy       *string          `json:"remedy"`
	Stop         Stop             `json:"stop"`
	Limits       []Limit          `json:"limits"`
	Usage        Usage            `json:"usage"`
	LeftUnit     []verify.Member  `json:"left_unit"`
}

// ExitFact is how the main process ended.
type ExitFact struct {
	Known bool `json:"known"`
	// Code is the exit code; nil when a signal ended it or it is not known.
	Code *int `json:"code"`
	// Signal is the signal's name without SIG; nil when it exited.
	Signal     *string    `json:"signal"`
	CoreDumped bool       `json:"core_dumped"`
	Source     Text       `json:"source"`
	At         *time.Time `json:"at"`
}

// StreamsFact is whether all writers of the job's output have closed it.
type StreamsFact struct {
	// State is "open" while the job runs, "held" when processes that are left
	// may hold the output, "closed" when none is left, or none that is left does,
	// and "lost" when who kept the output was killed: what came after StdoutBytes
	// and StderrBytes is kept nowhere.
	State        string     `json:"state"`
	StdoutBytes  *int64     `json:"stdout_bytes"`
	StderrBytes  *int64     `json:"stderr_bytes"`
	DroppedBytes *int64     `json:"dropped_bytes"`
	At           *time.Time `json:"at"`
}

// TreeFact is whether a process is left in the unit.
type TreeFact struct {
	Empty   bool            `json:"empty"`
	Source  Text            `json:"source"`
	At      *time.Time      `json:"at"`
	Members []verify.Member `json:"members"`
}

// Stop is what was done to end the job.
type Stop struct {
	// RequestedAt is nil when nobody asked for an end.
	RequestedAt *time.Time `json:"requested_at"`
	// By is who asked: "stop", "signal", "timeout", "leftovers", "owner",
	// "output-limit".
	By *string `json:"by"`
	// Steps are the first and the newest of them, at most MaxSteps.
	Steps []Step `json:"steps"`
}

// MaxSteps bounds how many steps of a stop are recorded: a supervisor may ask again
// every second while a process sleeps uninterruptibly, and a record has to stay of a
// size that can be read.
const MaxSteps = 64

// Add adds a step. Of more than MaxSteps those in the middle are forgotten.
func (s *Stop) Add(step Step) {
	steps := append(slices.Clone(s.Steps), step)
	if n := len(steps); n > MaxSteps {
		steps = slices.Delete(steps, MaxSteps/2, MaxSteps/2+n-MaxSteps)
	}
	s.Steps = steps
}

// Step is one thing done to end a job.
type Step struct {
	// At is when, or of what a manager did by itself when at the latest.
	At time.Time `json:"at"`
	// Action is "TERM", "KILL" or another signal's name.
	Action string `json:"action"`
	// Sufficed is true when the unit was empty before the next step was due, and
	// nobody's SIGKILL had ended the main process after a step of another signal.
	Sufficed bool `json:"sufficed"`
	// Detail says who acted and what went wrong; it may be empty.
	Detail string `json:"detail,omitempty"`
}

// Usage is what the job used; nil is not known.
type Usage struct {
	// CPUNanoseconds is user and system time together.
	CPUNanoseconds *uint64 `json:"cpu_ns"`
	// MemoryPeak is in bytes.
	MemoryPeak *uint64 `json:"memory_peak"`
	TasksPeak  *uint64 `json:"tasks_peak"`
}
