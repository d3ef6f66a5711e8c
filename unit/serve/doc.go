// Package serve speaks JSON-RPC 2.0 on a stream, one JSON object a line, for
// one client that starts jobs and wants to know of them.
//
// # The protocol
//
// The client's first request is initialize. A request has an id, which is a
// number or a string; a notification of the client has none, and there is one
// alone, $/cancelRequest. Fields that are not known are refused by name, so
// that what a client means is never half understood. Times are in milliseconds
// and named …_ms, sizes in bytes.
//
// Four facts are told of a job, never merged: exit, streams, tree and settled.
// Each has a notification of its own, and every notification of a job says of
// all four whether they are established. For one job they come in this order:
// the answer to its start, job/started, then job/output, job/dropped, job/exit
// and job/tree as they happen, job/streams after the last output, unless somebody
// outside of the job keeps that open, and job/settled, which is the last, once.
// job/settled with confirmed false says that no more will be learned, and what is
// missing.
//
// The stream's end is the client's goodbye: jobs of lifetime call are stopped,
// all others stay. The last message is server/ended, which names both.
//
// # The inside
//
// A job has one goroutine, its keeper, that waits for it and acts on it; all
// else looks at it as another process would, by its record. One goroutine
// reads the output of all jobs, and one writes. What is to be written waits in a
// box for each job: answers and facts are kept, output is read from the job's ring
// when its turn comes, so that a client that does not read costs a ring for each
// job and nothing more. Answers that can be large are made only when there is room
// for them.
package serve
