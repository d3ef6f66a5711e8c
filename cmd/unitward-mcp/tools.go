package main

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unitward/unitward/unit/serve"
)

// instructions are what a client's model is told of all tools together.
const instructions = "Commands run as jobs, each in a unit of its own. A job's end is called confirmed only when it is proven: " +
	"its main process has ended, and no process that it left behind is alive. run waits for a job, and after a while answers with its name " +
	"and background true: the job goes on, and wait, status, logs and stop take its name. Jobs end with this session unless their lifetime is detached. " +
	"A report with confirmed false says what is missing, and its remedy how to get it."

// server makes the MCP server.
func (s *session) server(version string) *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "unitward", Title: "unitward", Version: version},
		&mcp.ServerOptions{Instructions: instructions, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	yes, no := true, false
	runs := &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &yes}
	looks := &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
	add[runInput, runResult](m, s, &mcp.Tool{Name: "run", Title: "Run a command", Annotations: runs,
		Description: "Run a command as a job and wait until all of it has ended. The answer has the report, with exit and proof, and the end of the output. " +
			"A job that takes longer goes on: the answer then has background true, and the job's name for wait, logs and stop. " +
			"Cancelling the call stops the job; its answer has the proof.",
	}, s.run)
	add[startInput, serve.StartResult](m, s, &mcp.Tool{Name: "start", Title: "Start a job", Annotations: runs,
		Description: "Start a command as a job in the background, and answer with its name at once.",
	}, s.start)
	add[waitInput, serve.WaitResult](m, s, &mcp.Tool{Name: "wait", Title: "Wait for a job", Annotations: looks,
		Description: "Wait for a fact of a job, by default that it is settled: ended, with the proof. After the timeout it answers with the present state. " +
			"Cancelling the call ends the wait, not the job.",
	}, s.wait)
	add[nameInput, serve.JobResult](m, s, &mcp.Tool{Name: "status", Title: "Look at a job", Annotations: looks,
		Description: "Say what is known of a job now.",
	}, s.status)
	add[stopInput, serve.StopResult](m, s, &mcp.Tool{Name: "stop", Title: "Stop a job",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, IdempotentHint: true, OpenWorldHint: &no},
		Description: "End a job, all of it: a signal, a grace, then KILL for what is left, and the proof that nothing is. A job that had ended keeps its own result.",
	}, s.stop)
	add[logsInput, serve.OutputResult](m, s, &mcp.Tool{Name: "logs", Title: "Read a job's output", Annotations: looks,
		Description: "Read the output of a job from a cursor on. The answer has the next cursor, and says what was dropped.",
	}, s.logs)
	add[listInput, serve.ListResult](m, s, &mcp.Tool{Name: "list", Title: "List jobs", Annotations: looks,
		Description: "List the jobs of this user that are not settled, whoever started them.",
	}, s.list)
	add[nameInput, serve.Done](m, s, &mcp.Tool{Name: "release", Title: "Forget a job",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
		Description: "Drop the record and the output of a settled job. Others are refused.",
	}, s.release)
	add[noInput, serve.DoctorResult](m, s, &mcp.Tool{Name: "doctor", Title: "Examine this host",
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true, OpenWorldHint: &no},
		Description: "Run a probe in each isolation, and say which work here, what each can prove, and what would help where one does not.",
	}, s.doctor)
	return m
}

// handler is what a tool does. The error is a *serve.Error.
type handler[In, Out any] func(context.Context, *call, In) (*Out, error)

// add makes a tool of a handler. An error is a result for the model to read,
// with the same object as the protocol's beside it.
func add[In, Out any](m *mcp.Server, s *session, t *mcp.Tool, do handler[In, Out]) {
	t.InputSchema, t.OutputSchema = inputSchema[In](), outputSchema[Out]()
	mcp.AddTool(m, t, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		out, err := do(ctx, newCall(s, req), in)
		if err == nil {
			return nil, out, nil
		}
		e := asError(err)
		text := strings.Join(append([]string{e.Message}, e.Data.Hints...), "\nhint: ")
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}, failure{e}, nil
	})
}

// failure is the result of a call that came to nothing.
type failure struct {
	Error *serve.Error `json:"error"`
}
