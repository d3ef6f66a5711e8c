package main

import (
	"context"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// startInput is a job as a model asks for it. It is a part of what the protocol
// takes: the rest is for whoever holds descriptors and pipes.
type startInput struct {
	Command   []string           `json:"command" jsonschema:"the argument vector: a program and its arguments, no shell line; for one use [\"sh\", \"-c\", \"...\"]"`
	Name      string             `json:"name,omitempty" jsonschema:"the job's name: letters, digits and _ . : -; one is drawn where none is given"`
	Cwd       string             `json:"cwd,omitempty" jsonschema:"the working directory; the default is this server's"`
	Env       map[string]*string `json:"env,omitempty" jsonschema:"variables on top of this server's environment; null takes one away"`
	Owner     string             `json:"owner,omitempty" jsonschema:"a label to find jobs by with list"`
	Key       string             `json:"key,omitempty" jsonschema:"makes the start idempotent: a job of this key that is not settled is returned instead"`
	TimeoutMS int64              `json:"timeout_ms,omitempty" jsonschema:"end the job when it runs longer; 0 is never"`
	GraceMS   *int64             `json:"grace_ms,omitempty" jsonschema:"the time between TERM and KILL when the job is ended; the default is 10000"`
	Lifetime  string             `json:"lifetime,omitempty" jsonschema:"call, the default, ends the job with this session; detached lets it go on"`
	Leftovers string             `json:"leftovers,omitempty" jsonschema:"what becomes of processes that are left when the main one has ended: kill is the default"`
	Isolation []string           `json:"isolation,omitempty" jsonschema:"the isolations to try, in this order: service, scope, cgroup, group; the default is all that work"`
	MemoryMax string             `json:"memory_max,omitempty" jsonschema:"the most memory of the whole job, such as 512M"`
	TasksMax  string             `json:"tasks_max,omitempty" jsonschema:"the most processes and threads of the whole job"`
	CPUQuota  string             `json:"cpu_quota,omitempty" jsonschema:"the most processor time of the whole job, such as 150%"`
	Strict    bool               `json:"require_limits,omitempty" jsonschema:"run nothing where a limit would not hold"`
	OutputMax *int64             `json:"output_max_bytes,omitempty" jsonschema:"how much of each stream is kept: its beginning and its newest end; the default is 64 MiB"`
}

// params is the job as the protocol has it. Its output is captured: logs can be
// read at any time, by this session or later.
func (in *startInput) params() *serve.StartParams {
	p := &serve.StartParams{
		Name: in.Name, Owner: in.Owner, Key: in.Key, TimeoutMS: in.TimeoutMS, GraceMS: in.GraceMS, Lifetime: in.Lifetime, Leftovers: in.Leftovers,
		Isolation: in.Isolation, Limits: serve.JobLimits{MemoryMax: in.MemoryMax, TasksMax: in.TasksMax, CPUQuota: in.CPUQuota}, RequireLimits: in.Strict,
		Output: serve.OutputParams{Mode: "capture", MaxBytes: in.OutputMax}, Env: map[string]*rpc.Text{},
	}
	for _, arg := range in.Command {
		p.Command = append(p.Command, rpc.Text(arg))
	}
	if in.Cwd != "" {
		cwd := rpc.Text(in.Cwd)
		p.Cwd = &cwd
	}
	for name, value := range in.Env {
		p.Env[name] = (*rpc.Text)(value)
	}
	return p
}

// runInput is a job that is awaited.
type runInput struct {
	startInput
	BackgroundAfterMS *int64 `json:"background_after_ms,omitempty" jsonschema:"answer after this time, with the job going on; the default is that of this server"`
	OutputBytes       *int64 `json:"output_bytes,omitempty" jsonschema:"how much of the end of each stream the answer has; the default is 16384"`
}

// runResult is what came of a run.
type runResult struct {
	Name       string              `json:"name" jsonschema:"the job's name, for the other tools"`
	Background bool                `json:"background" jsonschema:"true when the job goes on"`
	Cancelled  bool                `json:"cancelled" jsonschema:"true when the call was cancelled, which stopped the job"`
	Joined     bool                `json:"joined" jsonschema:"true for a job that the same key had started before"`
	Facts      serve.Facts         `json:"facts" jsonschema:"which of the four facts are established"`
	Report     unit.Report         `json:"report" jsonschema:"what is known of the job, with the evidence: unitward-report(5)"`
	Output     *serve.OutputResult `json:"output,omitempty" jsonschema:"the end of the output, so far; logs goes on from its cursor"`
}

// defaultOutput is how much of each stream the answer to a run has.
const defaultOutput = 16 << 10

func (s *session) start(ctx context.Context, _ *call, in startInput) (*serve.StartResult, error) {
	var r serve.StartResult
	if err := s.call(ctx, serve.MethodStart, in.params(), &r); err != nil {
		return nil, err
	}
	return &r, nil
}

func (s *session) run(ctx context.Context, c *call, in runInput) (*runResult, error) {
	within, err := s.within("background_after_ms", in.BackgroundAfterMS)
	if err != nil {
		return nil, err
	}
	st, err := s.start(ctx, c, in.startInput)
	if err != nil {
		return nil, err
	}
	fact := "settled"
	if in.Leftovers == string(unit.LeftoversKeep) {
		fact = "exit" // what stays by request is not waited for
	}
	w, err := c.await(ctx, st.Name, fact, within)
	if err != nil {
		return nil, err
	}
	r := &runResult{Name: st.Name, Joined: st.Joined, Background: w.TimedOut, Cancelled: w.Cancelled, Facts: w.Facts, Report: w.Report}
	if w.Cancelled && ctx.Err() != nil && !st.Joined {
		// Who cancels a call has asked for an end, and gets to know of it.
		ctx = context.WithoutCancel(ctx)
		var stopped serve.StopResult
		if err := s.call(ctx, serve.MethodStop, serve.StopParams{Name: st.Name}, &stopped); err != nil {
			return nil, err
		}
		r.Facts, r.Report = stopped.Facts, stopped.Report
	}
	most := int64(defaultOutput)
	if in.OutputBytes != nil {
		most = min(*in.OutputBytes, serve.MaxOutput)
	}
	if most > 0 {
		// A report is worth more than its output, which logs has, or says why
		// not.
		r.Output, _ = s.tail(ctx, &r.Report, most)
	}
	return r, nil
}

// within is a time that was asked for, or the server's own.
func (s *session) within(field string, ms *int64) (time.Duration, error) {
	if ms == nil {
		return s.after, nil
	}
	if *ms < 0 || *ms > maxWait.Milliseconds() {
		return 0, usage(field, "a time of up to a year, in milliseconds, is expected")
	}
	return time.Duration(*ms) * time.Millisecond, nil
}

// maxWait is longer than any client waits.
const maxWait = 365 * 24 * time.Hour

func usage(field, problem string) error {
	return &serve.Error{Code: serve.CodeParams, Message: "cannot use " + field + ": " + problem, Data: serve.ErrorData{Kind: serve.KindUsage, Field: field, Hints: []string{}}}
}
