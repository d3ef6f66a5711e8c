package serve

import (
	"time"

	"github.com/unitward/unitward/unit"
)

// Facts says which of the four facts of a job are established: in an answer as
// far as is known, in a notification as far as was told before, and with it.
type Facts struct {
	// Exit is true when it is known how the main process ended.
	Exit bool `json:"exit"`
	// Streams is true when every writer of the output has closed it.
	Streams bool `json:"streams"`
	// Tree is true when no process is left.
	Tree bool `json:"tree"`
	// Settled is true when both exit and tree are proven, and written down.
	Settled bool `json:"settled"`
}

func factsOf(r *unit.Report) Facts {
	// What is lost is closed as well, once nobody is left who could write.
	streams := r.Streams.State == "closed" || r.Streams.State == "lost" && r.Tree.Empty
	return Facts{Exit: r.Exit.Known, Streams: streams, Tree: r.Tree.Empty, Settled: r.State == unit.StateSettled}
}

// Started tells that a job was started.
type Started struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
	// Token is that of the start.
	Token string `json:"token,omitempty"`
	Facts Facts  `json:"facts"`
	// Isolation is the one that it got, PID its main process.
	Isolation string     `json:"isolation"`
	PID       int        `json:"pid"`
	StartedAt *time.Time `json:"started_at"`
}

// Output tells of output.
type Output struct {
	Name  string `json:"name"`
	Facts Facts  `json:"facts"`
	Chunk
}

// Dropped tells that output will not be told: the client was too slow, or
// there was more than MaxBytes.
type Dropped struct {
	Name   string `json:"name"`
	Facts  Facts  `json:"facts"`
	Stream string `json:"stream"`
	// Offset is the place of the first byte that was dropped, Bytes how many
	// were.
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
	// Why is "slow" or "limit".
	Why string `json:"why"`
}

// Exited tells how the main process ended.
type Exited struct {
	Name   string        `json:"name"`
	Facts  Facts         `json:"facts"`
	Exit   unit.ExitFact `json:"exit"`
	Reason *unit.Reason  `json:"reason"`
}

// StreamsClosed tells that nobody can write to the output any more.
type StreamsClosed struct {
	Name    string           `json:"name"`
	Facts   Facts            `json:"facts"`
	Streams unit.StreamsFact `json:"streams"`
}

// TreeEmptied tells that no process is left.
type TreeEmptied struct {
	Name  string        `json:"name"`
	Facts Facts         `json:"facts"`
	Tree  unit.TreeFact `json:"tree"`
}

// Settled is the last that is told of a job.
type Settled struct {
	Name  string `json:"name"`
	Owner string `json:"owner"`
	Facts Facts  `json:"facts"`
	// Confirmed is false when the end could not be proven and never will be.
	Confirmed bool        `json:"confirmed"`
	Report    unit.Report `json:"report"`
}

func (e *Started) stamp(told *Facts) { e.Facts = *told }

func (e *Output) stamp(told *Facts) { e.Facts = *told }

func (e *Dropped) stamp(told *Facts) { e.Facts = *told }

func (e *Exited) stamp(told *Facts) {
	told.Exit = true
	e.Facts = *told
}

func (e *StreamsClosed) stamp(told *Facts) {
	told.Streams = true
	e.Facts = *told
}

func (e *TreeEmptied) stamp(told *Facts) {
	told.Tree = true
	e.Facts = *told
}

func (e *Settled) stamp(told *Facts) {
	told.Settled = e.Report.State == unit.StateSettled
	e.Facts = *told
}
