package main

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

// progressTime is how often a client is told of a call that waits.
const progressTime = time.Second

// call is one of a tool.
type call struct {
	s     *session
	req   *mcp.CallToolRequest
	begun time.Time
}

func newCall(s *session, req *mcp.CallToolRequest) *call { return &call{s, req, time.Now()} }

// await waits for a fact of a job, until some time after the call's beginning,
// and tells of the job meanwhile. When ctx is done it answers with the present
// state. It is one request: what is under way is still answered by a server that
// is ending.
func (c *call) await(ctx context.Context, name, fact string, within time.Duration) (*serve.WaitResult, error) {
	ms := max(within-time.Since(c.begun), 0).Milliseconds()
	wait := c.s.send(ctx, serve.MethodWait, serve.WaitParams{Name: name, For: fact, TimeoutMS: &ms})
	var r serve.WaitResult
	done := make(chan error, 1)
	go func() { done <- wait.into(&r) }()
	var tick <-chan time.Time
	if c.req.Params.GetProgressToken() != nil {
		t := time.NewTicker(progressTime)
		defer t.Stop()
		tick = t.C
		c.look(ctx, name)
	}
	for {
		select {
		case err := <-done:
			if err != nil {
				return nil, err
			}
			return &r, nil
		case <-tick:
			c.look(ctx, name)
		}
	}
}

// look tells of a job what there is to see now. Where that cannot be said, the
// answer says why.
func (c *call) look(ctx context.Context, name string) {
	if job, err := c.s.status(ctx, c, nameInput{name}); err == nil {
		c.tell(ctx, &job.Report)
	}
}

// tell is a progress notification: how long it has been, and of which job.
func (c *call) tell(ctx context.Context, rep *unit.Report) {
	lasted := time.Since(c.begun)
	what := string(rep.State)
	if rep.Exit.Known {
		what = "its main process has ended, what it left has not"
	}
	// A client that cannot be told gets no answer either.
	_ = c.req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: c.req.Params.GetProgressToken(), Progress: lasted.Seconds(),
		Message: fmt.Sprintf("job %s: %s, after %v", rep.Name, what, lasted.Round(100*time.Millisecond)),
	})
}
