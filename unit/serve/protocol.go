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
	// than MaxOutput is MaxOutput.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// Encoding is "text" or "base64"; empty is the one in which the output is told,
	// else text.
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
