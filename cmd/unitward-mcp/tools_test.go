package main

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

func TestToolsAreAnnotated(t *testing.T) {
	p := dial(t, "group")
	var r struct {
		Tools []struct {
			Name, Title, Description string
			InputSchema              struct {
				Type       string
				Properties map[string]struct{ Type, Description string }
			}
			OutputSchema struct {
				Type       string
				Properties map[string]any
			}
			Annotations map[string]any
		}
	}
	m := p.answer(p.Ask("tools/list", map[string]any{}))
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatalf("%v: %s", err, m.raw)
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Name)
		if tool.Title == "" || tool.Description == "" || len(tool.Annotations) < 3 || tool.InputSchema.Type != "object" || tool.OutputSchema.Type != "object" {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
		for field, s := range tool.InputSchema.Properties {
			if s.Type == "" || s.Description == "" {
				t.Errorf("%s takes %s, of which it says %+v", tool.Name, field, s)
			}
		}
		if _, ok := tool.OutputSchema.Properties["error"]; !ok {
			t.Errorf("%s has no error in its result", tool.Name)
		}
		if want := slices.Contains([]string{"wait", "status", "logs", "list"}, tool.Name); tool.Annotations["readOnlyHint"] != want {
			t.Errorf("%s says of itself %v", tool.Name, tool.Annotations)
		}
	}
	slices.Sort(names)
	if want := []string{"doctor", "list", "logs", "release", "run", "start", "status", "stop", "wait"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %v", names)
	}
	p.end(0)
}

// code is a report's exit code; -1 where there is none.
func code(rep *unit.Report) int {
	if rep.Exit.Code == nil {
		return -1
	}
	return *rep.Exit.Code
}

// text is what a result has of a stream.
func text(o *serve.OutputResult, stream string) (all string) {
	if o == nil {
		return "no output"
	}
	for _, c := range o.Chunks {
		if c.Stream == stream {
			all += c.Data
		}
	}
	return all
}

// The SDK's own client, which checks results against their schemas, sees a whole
// life of jobs.
func TestLifeOfJobs(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		cmd, _ := underTest(t, rung)
		ctx := t.Context()
		session, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(ctx, &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if _, err := session.ListTools(ctx, nil); err != nil {
			t.Fatal(err)
		}
		use := func(tool string, arguments map[string]any, result any) {
			t.Helper()
			r, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
			if err != nil || r.IsError {
				t.Fatalf("%s: %v, %+v", tool, err, r)
			}
			b, err := json.Marshal(r.StructuredContent)
			if err == nil {
				err = json.Unmarshal(b, result)
			}
			if err != nil {
				t.Fatalf("%s: %v", tool, err)
			}
		}
		isolation := []string{rung}
		var r runResult
		use("run", map[string]any{"command": []string{"sh", "-c", `echo "$A $PWD"; echo no >&2; exit 3`}, "isolation": isolation, "cwd": "/tmp", "env": map[string]any{"A": "b"}}, &r)
		if code(&r.Report) != 3 || !r.Report.Confirmed || r.Report.Schema != unit.ReportSchema || string(r.Report.Isolation) != rung || r.Background || r.Cancelled ||
			text(r.Output, "stdout") != "b /tmp\n" || text(r.Output, "stderr") != "no\n" || !r.Facts.Settled {
			t.Errorf("run: %+v, %+v", r, r.Output)
		}
		var st serve.StartResult
		use("start", map[string]any{"command": []string{"sh", "-c", "echo one; sleep 47401 & sleep 47402"}, "isolation": isolation, "owner": "o1", "grace_ms": 1000}, &st)
		var w serve.WaitResult
		use("wait", map[string]any{"name": st.Name, "timeout_ms": 50}, &w)
		if !w.TimedOut || w.Reached || w.Facts.Exit {
			t.Errorf("wait: %+v", w)
		}
		var list serve.ListResult
		use("list", map[string]any{"owner": "o1"}, &list)
		if len(list.Jobs) != 1 || list.Jobs[0].Name != st.Name || list.Jobs[0].Report.State != unit.StateRunning {
			t.Errorf("list: %+v", list)
		}
		if !eventually(func() bool {
			var out serve.OutputResult
			use("logs", map[string]any{"name": st.Name, "stream": "stdout"}, &out)
			return text(&out, "stdout") == "one\n"
		}) {
			t.Fatal("it says nothing")
		}
		var stopped serve.StopResult
		use("stop", map[string]any{"name": st.Name}, &stopped)
		if !stopped.Confirmed || *stopped.Report.Reason != unit.ReasonCancelled || alive("sleep", "47401")+alive("sleep", "47402") != 0 {
			t.Errorf("stop: %+v", stopped)
		}
		var j serve.JobResult
		use("status", map[string]any{"name": st.Name}, &j)
		if j.Report.State != unit.StateSettled || !j.Facts.Tree {
			t.Errorf("status: %+v", j)
		}
		var out serve.OutputResult
		use("logs", map[string]any{"name": st.Name, "stream": "stdout"}, &out)
		if text(&out, "stdout") != "one\n" || !out.Ended {
			t.Errorf("logs: %+v", out)
		}
		use("release", map[string]any{"name": st.Name}, &serve.Done{})
		failed, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "status", Arguments: map[string]any{"name": st.Name}})
		if err != nil || !failed.IsError {
			t.Errorf("after its release: %+v, %v", failed, err)
		}
	})
}

func TestDoctor(t *testing.T) {
	p := dial(t, "group")
	var found serve.DoctorResult
	p.call("doctor", map[string]any{}).into(t, &found)
	if len(found.Rungs) < 4 || found.Auto == "" {
		t.Errorf("%+v", found)
	}
	p.end(0)
}

// A call that waits tells of itself, and after a while answers with the job's
// name; the job ends with the session.
func TestCallsDoNotBlock(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		p := dial(t, rung, "--background-after=2500ms")
		id := p.use("run", p.job(map[string]any{"name": "slow"}, "sh", "-c", "echo begun; sleep 47403"))
		var r runResult
		p.outcome(id).into(t, &r)
		if !r.Background || r.Cancelled || r.Name != "slow" || r.Report.State != unit.StateRunning || text(r.Output, "stdout") != "begun\n" {
			t.Errorf("%+v, %+v", r, r.Output)
		}
		last := -1.0
		n := 0
		for _, m := range p.Said() {
			if m.Method == "notifications/progress" && string(m.Params.Token) == `"p`+id+`"` {
				n++
				if m.Params.Progress <= last || !strings.Contains(m.Params.Message, "job slow") {
					t.Errorf("after %v: %s", last, m.raw)
				}
				last = m.Params.Progress
			}
		}
		if n < 2 {
			t.Errorf("there were %d notifications of progress", n)
		}
		// A stop that takes longer than a call may goes on, too.
		p.call("start", p.job(map[string]any{"name": "deaf", "grace_ms": 5000}, "sh", "-c", "trap '' TERM; echo armed; while :; do sleep .1; done")).into(t, &serve.StartResult{})
		if !eventually(func() bool {
			var out serve.OutputResult
			p.call("logs", map[string]any{"name": "deaf"}).into(t, &out)
			return text(&out, "stdout") == "armed\n"
		}) {
			t.Fatal("it says nothing")
		}
		var s serve.StopResult
		p.call("stop", map[string]any{"name": "deaf"}).into(t, &s)
		if s.Confirmed || s.Report.State != unit.StateStopping && s.Report.State != unit.StateRunning {
			t.Errorf("%+v", s)
		}
		var w serve.WaitResult
		p.call("wait", map[string]any{"name": "deaf", "timeout_ms": patience.Milliseconds()}).into(t, &w)
		if !w.Reached || *w.Report.Reason != unit.ReasonCancelled {
			t.Errorf("%+v", w)
		}
		p.end(0)
		if alive("sleep", "47403") != 0 {
			t.Error("the job outlives the session")
		}
	})
}

// Who cancels a call gets the proof of the job's end; who cancels a wait, the
// present state.
func TestCancellation(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		p := dial(t, rung)
		id := p.use("run", p.job(map[string]any{"name": "given-up"}, "sh", "-c", "sleep 47404 & sleep 47405"))
		p.Find("progress", 0, func(m *message) bool { return strings.Contains(m.Params.Message, "given-up") })
		waits := p.use("wait", map[string]any{"name": "given-up"})
		p.Find("progress", 0, func(m *message) bool { return string(m.Params.Token) == `"p`+waits+`"` })
		p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + waits + `}}`)
		var w serve.WaitResult
		p.outcome(waits).into(t, &w)
		if !w.Cancelled || w.Reached || w.Report.State != unit.StateRunning {
			t.Errorf("the wait: %+v", w)
		}
		p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		var r runResult
		p.outcome(id).into(t, &r)
		if !r.Cancelled || !r.Report.Confirmed || !r.Facts.Settled || *r.Report.Reason != unit.ReasonCancelled || alive("sleep", "47404")+alive("sleep", "47405") != 0 {
			t.Errorf("the run: %+v", r)
		}
		// At any moment of a start nothing is left.
		for range 10 {
			id := p.use("run", p.job(nil, "sleep", "47406"))
			p.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			if m := p.answer(id); m.Error == nil {
				if o := p.outcome(id); o.IsError {
					o.fails(t, serve.KindAborted)
				} else {
					o.into(t, &r)
				}
			}
		}
		if alive("sleep", "47406") != 0 {
			t.Error("a job is left")
		}
		p.end(0)
	})
}

// The end of the input, or a signal, ends what ends with the session, and names
// the rest.
func TestEnd(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		for _, how := range []string{"eof", "signal"} {
			p := dial(t, rung)
			p.call("start", p.job(map[string]any{"name": "ends-" + how}, "sleep", "47407")).into(t, &serve.StartResult{})
			p.call("start", p.job(map[string]any{"name": "stays-" + how, "lifetime": "detached"}, "sleep", "47408")).into(t, &serve.StartResult{})
			id := p.use("run", p.job(nil, "sleep", "47409"))
			p.Find("progress", 0, func(m *message) bool { return string(m.Params.Token) == `"p`+id+`"` })
			if how == "eof" {
				p.In.Close()
			} else if err := p.signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var r runResult
			p.outcome(id).into(t, &r)
			if !r.Report.Confirmed || *r.Report.Reason != unit.ReasonCancelled {
				t.Errorf("%s: %+v", how, r)
			}
			p.ends(0)
			if got := p.errs.String(); got != "unitward-mcp: these jobs go on: stays-"+how+"\n" {
				t.Errorf("%s: it says %q", how, got)
			}
			if n := alive("sleep", "47407") + alive("sleep", "47409"); n != 0 || alive("sleep", "47408") != 1 {
				t.Errorf("%s: %d are left, %d stay", how, n, alive("sleep", "47408"))
			}
			next := talk(t, underTestIn(p.state, rung))
			var s serve.StopResult
			next.call("stop", map[string]any{"name": "stays-" + how}).into(t, &s)
			if !s.Confirmed {
				t.Errorf("%s: %+v", how, s)
			}
			next.end(0)
		}
	})
}

// signal is for the program itself, behind whatever has started it.
func (p *user) signal(sig syscall.Signal) error { return p.Cmd.Process.Signal(sig) }

// SIGKILL of the program leaves nothing that ends with it.
func TestKilled(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		p := dial(t, rung)
		p.call("start", p.job(nil, "sh", "-c", "setsid sleep 47410 & sleep 47411")).into(t, &serve.StartResult{})
		p.Cmd.Process.Kill()
		p.Cmd.Wait()
		if !eventually(func() bool { return alive("sleep", "47410")+alive("sleep", "47411") == 0 }) {
			t.Error("a job outlives the program")
		}
	})
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		arguments string
		status    int
		says      string
	}{
		{"--version", 0, "unitward-mcp version "},
		{"--help", 0, "--background-after TIME"},
		{"more", 125, "unitward-mcp: cannot use the argument \"more\": it takes none\nhint: "},
		{"--background-after soon", 125, "cannot use --background-after"},
		{"--max-running -1", 125, "cannot use --max-running -1"},
		{"--nonsense", 125, "cannot read the options: unknown flag"},
	} {
		cmd, _ := underTest(t, "")
		cmd.Env = append(cmd.Env, roleVariable+"="+c.arguments)
		out, _ := cmd.CombinedOutput() // its status is looked at
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: status %d, %s", c.arguments, got, out)
		}
	}
}
