package main

import (
	"cmp"
	"context"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/serve"
)

type nameInput struct {
	Name string `json:"name" jsonschema:"the job's name"`
}

type waitInput struct {
	Name      string `json:"name" jsonschema:"the job's name"`
	For       string `json:"for,omitempty" jsonschema:"the fact to wait for: exit, streams, tree or settled, the default"`
	TimeoutMS *int64 `json:"timeout_ms,omitempty" jsonschema:"answer after this time; the default is that of this server"`
}

type stopInput struct {
	Name    string `json:"name" jsonschema:"the job's name"`
	GraceMS *int64 `json:"grace_ms,omitempty" jsonschema:"the time between TERM and KILL; the default is the job's own"`
}

type logsInput struct {
	Name      string `json:"name" jsonschema:"the job's name"`
	Stream    string `json:"stream,omitempty" jsonschema:"stdout or stderr; the default is both"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"where to read from, as an earlier answer gave it; the default is the beginning"`
	TailBytes int64  `json:"tail_bytes,omitempty" jsonschema:"instead of a cursor: read so much of the end of each stream"`
	MaxBytes  int64  `json:"max_bytes,omitempty" jsonschema:"the most that is returned of each stream; the default is 262144"`
	Encoding  string `json:"encoding,omitempty" jsonschema:"text, the default, or base64"`
}

type listInput struct {
	Owner   string `json:"owner,omitempty" jsonschema:"the label of the jobs' owner; the default is any"`
	All     bool   `json:"all,omitempty" jsonschema:"settled jobs too"`
	Orphans bool   `json:"orphans,omitempty" jsonschema:"only live jobs whose owner or launcher is gone"`
}

type noInput struct{}

func (s *session) wait(ctx context.Context, c *call, in waitInput) (*serve.WaitResult, error) {
	within, err := s.within("timeout_ms", in.TimeoutMS)
	if err != nil {
		return nil, err
	}
	return c.await(ctx, in.Name, in.For, within)
}

// stop waits no longer than any call: the stop goes on, and the answer is the
// present state.
func (s *session) stop(ctx context.Context, _ *call, in stopInput) (*serve.StopResult, error) {
	ctx, cancel := context.WithTimeout(ctx, s.after)
	defer cancel()
	return ask[serve.StopResult](ctx, s, serve.MethodStop, serve.StopParams{Name: in.Name, GraceMS: in.GraceMS})
}

func (s *session) status(ctx context.Context, _ *call, in nameInput) (*serve.JobResult, error) {
	return ask[serve.JobResult](ctx, s, serve.MethodStatus, serve.NameParams(in))
}

func (s *session) list(ctx context.Context, _ *call, in listInput) (*serve.ListResult, error) {
	return ask[serve.ListResult](ctx, s, serve.MethodList, serve.ListParams(in))
}

func (s *session) release(ctx context.Context, _ *call, in nameInput) (*serve.Done, error) {
	return ask[serve.Done](ctx, s, serve.MethodRelease, serve.NameParams(in))
}

func (s *session) doctor(ctx context.Context, _ *call, _ noInput) (*serve.DoctorResult, error) {
	return ask[serve.DoctorResult](ctx, s, serve.MethodDoctor, serve.Empty{})
}

func (s *session) logs(ctx context.Context, _ *call, in logsInput) (*serve.OutputResult, error) {
	q := serve.OutputQuery{Name: in.Name, Stream: in.Stream, Cursor: in.Cursor, MaxBytes: in.MaxBytes, Encoding: in.Encoding}
	switch {
	case in.TailBytes < 0 || in.TailBytes > 0 && in.Cursor != "":
		return nil, usage("tail_bytes", "a size is expected, and no cursor")
	case in.TailBytes > 0:
		job, err := s.status(ctx, nil, nameInput{in.Name})
		if err != nil {
			return nil, err
		}
		// It is the end that is asked for: no more of it than comes in one answer.
		q.MaxBytes = min(cmp.Or(in.MaxBytes, in.TailBytes), serve.MaxOutput)
		q.Cursor = before(&job.Report, min(in.TailBytes, q.MaxBytes))
	}
	return ask[serve.OutputResult](ctx, s, serve.MethodOutput, q)
}

// tail reads the end of a job's output.
func (s *session) tail(ctx context.Context, rep *unit.Report, bytes int64) (*serve.OutputResult, error) {
	return ask[serve.OutputResult](ctx, s, serve.MethodOutput, serve.OutputQuery{Name: string(rep.Name), Cursor: before(rep, bytes), MaxBytes: bytes})
}

// before is the place in a job's output with so much of each stream behind it.
func before(rep *unit.Report, bytes int64) string {
	var at capture.Cursor
	for stream, size := range map[capture.Stream]*int64{capture.Stdout: rep.Streams.StdoutBytes, capture.Stderr: rep.Streams.StderrBytes} {
		if size != nil {
			at = at.With(stream, max(*size-bytes, 0))
		}
	}
	return at.String()
}

// ask is a request whose result is the tool's.
func ask[Result any](ctx context.Context, s *session, method string, params any) (*Result, error) {
	var r Result
	if err := s.call(ctx, method, params, &r); err != nil {
		return nil, err
	}
	return &r, nil
}
