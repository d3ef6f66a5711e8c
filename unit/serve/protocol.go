package serve

import (
	"encoding/json"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// Protocol is the version of the protocol that this package speaks.
const Protocol = 1

// Names of the methods.
const (
	MethodInitialize = "initialize"
	MethodStart      = "job.start"
	MethodRun        = "job.run"
	MethodTrack      = "job.track"
	MethodPromote    = "job.promote"
	MethodStatus     = "job.status"
	MethodList       = "job.list"
	MethodWait       = "job.wait"
	MethodStop       = "job.stop"
	MethodStopOwner  = "job.stopOwner"
	MethodSignal     = "job.signal"
	MethodPause      = "job.pause"
	MethodResume     = "job.resume"
	MethodWrite      = "job.write"
	MethodCloseStdin = "job.closeStdin"
	MethodOutput     = "job.output"
	MethodRelease    = "job.release"
	MethodAbortStart = "job.abortStart"
	MethodDoctor     = "doctor"
	MethodShutdown   = "shutdown"
	// MethodCancel is the client's only notification.
	MethodCancel = "$/cancelRequest"
)

// Names of the server's notifications.
const (
	NotifyStarted = "job/started"
	NotifyOutput  = "job/output"
	NotifyDropped = "job/dropped"
	NotifyExit    = "job/exit"
	NotifyStreams = "job/streams"
	NotifyTree    = "job/tree"
	NotifySettled = "job/settled"
	// NotifyEnded is the last message.
	NotifyEnded = "server/ended"
)

// InitializeParams is what a client says of itself.
type InitializeParams struct {
	// Client is who it is.
	Client Peer `json:"client,omitzero"`
	// Protocol is the version that it speaks; 0 leaves it to the server.
	Protocol int `json:"protocol,omitempty"`
	// Required are capabilities without which it will not go on.
	Required []string `json:"required,omitempty"`
}

// Peer is one end of the stream.
type Peer struct {
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
}

// InitializeResult is what the server says of itself.
type InitializeResult struct {
	Protocol int  `json:"protocol"`
	Server   Peer `json:"server"`
	// Capabilities are true where they can be used here.
	Capabilities map[string]bool `json:"capabilities"`
	// Isolation is what a job that does not name one will probably get; a
	// job's report says what it got.
	Isolation string `json:"isolation"`
	Limits    Limits `json:"limits"`
}

// Limits are the server's bounds.
type Limits struct {
	// Line is the longest line that is read.
	Line int `json:"line_bytes"`
	// Running is how many jobs of this server can be unsettled, Queue how many
	// starts can wait for that, and QueueMS how long.
	Running int   `json:"running"`
	Queue   int   `json:"queue"`
	QueueMS int64 `json:"queue_ms"`
	// Ring is how much output of a job with output "notify" is kept.
	Ring int `json:"ring_bytes"`
	// Stdin is how much of what was written to a job can wait.
	Stdin int `json:"stdin_bytes"`
	// Settled is how many settled jobs are remembered, and SettledMS how long.
	Settled   int   `json:"settled"`
	SettledMS int64 `json:"settled_ms"`
	// Tokens is how many tokens of starts that were aborted before they came
	// are remembered, and TokensMS how long.
	Tokens   int   `json:"tokens"`
	TokensMS int64 `json:"tokens_ms"`
}

// StartParams is a job as a client asks for it.
type StartParams struct {
	// Command is the argument vector; it has at least the command's name.
	Command []rpc.Text `json:"command"`
	// Name is the job's name; empty draws one.
	Name string `json:"name,omitempty"`
	// Owner is a label of the client's session, for job.stopOwner.
	Owner string `json:"owner,omitempty"`
	// Token names the start for job.abortStart; it is at most 128 bytes long.
	Token string `json:"token,omitempty"`
	// Key makes the start idempotent: a job that was started with it and is
	// not settled is returned instead.
	Key string `json:"key,omitempty"`

	// Cwd is the working directory; empty is the server's.
	Cwd *rpc.Text `json:"cwd,omitempty"`
	// Env is set on top of the server's environment, or of nothing with
	// CleanEnv; null takes a variable away.
	Env      map[string]*rpc.Text `json:"env,omitempty"`
	CleanEnv bool                 `json:"clean_env,omitempty"`
	// UID and GID are the user and group that the job runs as, by name or number;
	// empty UID is the server's user, empty GID the group of that user.
	UID string `json:"uid,omitempty"`
	GID string `json:"gid,omitempty"`
	// Nice is the scheduling priority from -20 to 19; null is that of who starts
	// the job, the server or a manager.
	Nice *int `json:"nice,omitempty"`

	// Isolation are the rungs to try, in this order; none is all that work.
	Isolation []string `json:"isolation,omitempty"`
	// Manager is "user" or "system"; empty is the system's for root, else the
	// user's.
	Manager string `json:"manager,omitempty"`
	// Slice is the unit's, "a" and "a.slice" being the same; empty is unitward's
	// own.
	Slice string `json:"slice,omitempty"`
	// CgroupParent is, for isolation cgroup, the cgroup below which that of the job
	// is made, as a path from the root of the hierarchy; empty is one that is found
	// to allow it.
	CgroupParent string `json:"cgroup_parent,omitempty"`
	// Description is that of the unit; empty is the command.
	Description string `json:"description,omitempty"`
	// Properties are unit properties as NAME=VALUE.
	Properties []string `json:"properties,omitempty"`
	// Limits are those of the whole job.
	Limits        JobLimits `json:"limits,omitzero"`
	RequireLimits bool      `json:"require_limits,omitempty"`

	// TimeoutMS ends the job when it runs longer; 0 is never.
	TimeoutMS int64 `json:"timeout_ms,omitempty"`
	// GraceMS is the time between the kill signal and KILL; null is 10 s.
	GraceMS *int64 `json:"grace_ms,omitempty"`
	// KillSignal is what a stop sends first, a name such as INT or a number; empty
	// is TERM.
	KillSignal string `json:"kill_signal,omitempty"`
	// Leftovers is "kill", the default, "wait" or "keep".
	Leftovers string `json:"leftovers,omitempty"`
	// Lifetime is "call", the default, which ends the job with the server,
	// "owner" or "detached".
	Lifetime string `json:"lifetime,omitempty"`
	// OwnerPID is the process whose end ends a job of lifetime owner.
	OwnerPID int `json:"owner_pid,omitempty"`
	// OwnerUnit is a unit of a manager in its place: the job ends once that has no
	// process left.
	OwnerUnit string `json:"owner_unit,omitempty"`
	// Promotable lets job.promote detach the job later.
	Promotable bool `json:"promotable,omitempty"`

	// Stdin is "null", the default, or "pipe", for job.write.
	Stdin string `json:"stdin,omitempty"`
	// Output says where the job's output goes.
	Output OutputParams `json:"output,omitzero"`
}

// JobLimits are limits in the syntax of systemd.resource-control(5); empty is
// none.
type JobLimits struct {
	MemoryMax string `json:"memory_max,omitempty"`
	TasksMax  string `json:"tasks_max,omitempty"`
	CPUQuota  string `json:"cpu_quota,omitempty"`
}

// OutputParams says where a job's output goes.
type OutputParams struct {
	// Mode is "notify": pipes that the server reads; "capture": files in the
	// job's directory; "files": the files that are named; or "null". Empty is
	// notify for a job that ends with the server, else capture.
	Mode string `json:"mode,omitempty"`
	// Stdout and Stderr are, with files, the absolute paths of the files, which
	// are emptied unless Append is set; null is nowhere. The job gets the
	// files' own descriptors.
	Stdout *rpc.Text `json:"stdout,omitempty"`
	Stderr *rpc.Text `json:"stderr,omitempty"`
	Append bool      `json:"append,omitempty"`
	// Merged is one pipe for both streams, with notify; it is called stdout.
	Merged bool `json:"merged,omitempty"`
	// Encoding is "text", the default, or "base64".
	Encoding string `json:"encoding,omitempty"`
	// Follow tells of captured output as of that of notify.
	Follow bool `json:"follow,omitempty"`
	// MaxBytes is how much output there may be: with notify of both streams
	// together, with capture of each, whose default is 64 MiB. OnMax is
	// "truncate", the default, or "stop".
	MaxBytes *int64 `json:"max_bytes,omitempty"`
	OnMax    string `json:"on_max,omitempty"`
}

// RunParams is a job that is awaited: until it has settled, or until its main
// process has ended where leftovers are kept.
type RunParams struct {
	StartParams
	// BackgroundAfterMS answers after that time, with a job that goes on
	// detached; it makes the job promotable. 0 is never. A job that was joined is
	// detached only if it was started as promotable by this server, and else, where
	// its lifetime is call, awaited to its end.
	BackgroundAfterMS int64 `json:"background_after_ms,omitempty"`
}

// StartResult is a job that was started.
type StartResult struct {
	Name string `json:"name"`
	// Joined is true for a job that the same key had started before.
	Joined bool        `json:"joined"`
	Report unit.Report `json:"report"`
}

// RunResult is a job that was awaited.
type RunResult struct {
	Name string `json:"name"`
	// Background is true when the job goes on, detached.
	Background bool `json:"background"`
	// Cancelled is true when the request was cancelled, which stopped the job.
	Cancelled bool        `json:"cancelled"`
	Facts     Facts       `json:"facts"`
	Report    unit.Report `json:"report"`
}

// NameParams names a job.
type NameParams struct {
	Name string `json:"name"`
}

// TrackParams names a job that this server did not start.
type TrackParams struct {
	Name string `json:"name"`
	// Follow tells of its captured output from Cursor on; empty is the
	// beginning.
	Follow bool   `json:"follow,omitempty"`
	Cursor string `json:"cursor,omitempty"`
	// Encoding is "text", the default, or "base64".
	Encoding string `json:"encoding,omitempty"`
}

// JobResult is what is known of a job.
type JobResult struct {
	Name   string      `json:"name"`
	Facts  Facts       `json:"facts"`
	Report unit.Report `json:"report"`
}

// ListParams selects jobs.
type ListParams struct {
	// Owner is the label of the jobs' owner; empty is any.
	Owner string `json:"owner,omitempty"`
	// All includes settled jobs.
	All bool `json:"all,omitempty"`
	// Orphans is live jobs alone whose owner or launcher is gone.
	Orphans bool `json:"orphans,omitempty"`
}

// ListResult are the jobs on record, whoever started them.
type ListResult struct {
	Jobs []JobResult `json:"jobs"`
	// Bad are records that cannot be used.
	Bad []BadRecord `json:"bad"`
}

// BadRecord is a job whose record cannot be used.
type BadRecord struct {
	Name  string `json:"name"`
	Error Error  `json:"error"`
}

// WaitParams is a wait for a fact.
type WaitParams struct {
	Name string `json:"name"`
	// For is "exit", "streams", "tree" or "settled", the default.
	For string `json:"for,omitempty"`
	// TimeoutMS is the longest that the wait takes; null is for ever.
	TimeoutMS *int64 `json:"timeout_ms,omitempty"`
}

// WaitResult is the end of a wait, and the present state.
type WaitResult struct {
	Name string `json:"name"`
	// Reached is true when the fact is established. When it is false, the wait
	// timed out, was cancelled, or it is certain that the fact never will be.
	Reached   bool        `json:"reached"`
	TimedOut  bool        `json:"timed_out"`
	Cancelled bool        `json:"cancelled"`
	Facts     Facts       `json:"facts"`
	Report    unit.Report `json:"report"`
}

// StopParams ends a job.
type StopParams struct {
	Name string `json:"name"`
	// GraceMS is the time between the kill signal and KILL; null is the job's
	// own.
	GraceMS *int64 `json:"grace_ms,omitempty"`
}

// StopResult is the end of a stop. Delivery is no confirmation: Confirmed is.
type StopResult struct {
	Name      string      `json:"name"`
	Confirmed bool        `json:"confirmed"`
	Facts     Facts       `json:"facts"`
	Report    unit.Report `json:"report"`
}

// StopOwnerParams ends every job of an owner.
type StopOwnerParams struct {
	Owner string `json:"owner"`
	// GraceMS is the time between the kill signal and KILL of each job; null is the
	// job's own.
	GraceMS *int64 `json:"grace_ms,omitempty"`
}

// StopOwnerResult is what came of that.
type StopOwnerResult struct {
	Owner string `json:"owner"`
	// Stopped are the jobs whose end is proven, Unconfirmed those whose is not,
	// with what is missing. Jobs that had settled before are in neither; one that ran
	// although its start was aborted is in one of them.
	Stopped     []string      `json:"stopped"`
	Unconfirmed []Unconfirmed `json:"unconfirmed"`
	// Aborted is how many starts were aborted of which nothing ran.
	Aborted int `json:"aborted"`
	// Confirmed is true when nothing is unconfirmed.
	Confirmed bool `json:"confirmed"`
}

// Unconfirmed is a job whose end is not proven.
type Unconfirmed struct {
	Name   string       `json:"name"`
	Report *unit.Report `json:"report,omitempty"`
	Error  *Error       `json:"error,omitempty"`
}

// SignalParams sends a signal.
type SignalParams struct {
	Name string `json:"name"`
	// Signal is a name such as USR1, or a number.
	Signal string `json:"signal"`
	// Who is "main", the default, or "all".
	Who string `json:"who,omitempty"`
}

// Done is the answer of what has no other.
type Done struct {
	Name string `json:"name,omitempty"`
}

// WriteParams writes to a job's standard input.
type WriteParams struct {
	Name string   `json:"name"`
	Data rpc.Text `json:"data"`
}

// WriteResult says how much was taken and how much of that the job has not
// read yet.
type WriteResult struct {
	Name     string `json:"name"`
	Accepted int    `json:"accepted"`
	Buffered int    `json:"buffered"`
}

// OutputQuery reads the output of a job.
type OutputQuery struct {
	Name string `json:"name"`
	// Stream is "stdout" or "stderr"; empty is both.
	Stream string `json:"stream,omitempty"`
	// Cursor is where to read from, as an earlier answer gave it; empty is the
	// beginning.
	Cursor string `json:"cursor,omitempty"`
	// MaxBytes bounds what is returned of each stream; 0 is 256 KiB, and more
	// than 4 MiB is 4 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Encoding is "text" or "base64"; empty is that of the job's start.
	Encoding string `json:"encoding,omitempty"`
}

// OutputResult is output of a job.
type OutputResult struct {
	Name   string  `json:"name"`
	Chunks []Chunk `json:"chunks"`
	// Cursor is where the next read goes on.
	Cursor string `json:"cursor"`
	// More is true when there is more to read now.
	More bool `json:"more"`
	// Ended is true when every stream that was asked for was read to its end, after
	// which nothing comes.
	Ended bool  `json:"ended"`
	Facts Facts `json:"facts"`
}

// Chunk is a piece of one stream.
type Chunk struct {
	Stream string `json:"stream"`
	// Offset is the place of its first byte in the stream, Bytes how many it
	// has, before any encoding.
	Offset int64 `json:"offset"`
	Bytes  int   `json:"bytes"`
	// Dropped is how many bytes just before it are gone, which were asked for with
	// job.output; in a notification, where Dropped of its own tells that, it is 0.
	Dropped int64 `json:"dropped"`
	// Encoding is "text" or "base64". In a text, bytes that are not UTF-8 are
	// U+FFFD.
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
}

// AbortParams names a start.
type AbortParams struct {
	Token string `json:"token"`
}

// AbortResult is what came of an abort.
type AbortResult struct {
	Token string `json:"token"`
	// State is "remembered" when no such start is known, which will be refused
	// should it come; "aborted" when nothing of it runs, or ran; "stopped" when
	// its job had been started and its end is proven; "unconfirmed" when it is
	// not.
	State string `json:"state"`
	Name  string `json:"name,omitempty"`
	// Report is that of a job that was started.
	Report *unit.Report `json:"report,omitempty"`
}

// DoctorResult is what works here.
type DoctorResult = launch.Findings

// Ended is what the server leaves behind: the answer of shutdown, and the
// last message.
type Ended struct {
	// Why is "eof", "shutdown", "signal" or "client".
	Why string `json:"why"`
	// Stopped are the jobs whose end is proven now, Unconfirmed those whose is
	// not, and Left those that go on.
	Stopped     []string      `json:"stopped"`
	Unconfirmed []Unconfirmed `json:"unconfirmed"`
	Left        []string      `json:"left"`
	Confirmed   bool          `json:"confirmed"`
}

// CancelParams names a request.
type CancelParams struct {
	ID json.RawMessage `json:"id"`
}

// Empty is for methods without parameters.
type Empty struct{}
