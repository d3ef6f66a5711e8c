package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/tests/peer"
	"github.com/unitward/unitward/unit/launch"
)

const (
	// roleVariable makes this program the one under test; its value is the
	// arguments.
	roleVariable = "MCP_TEST_ARGUMENTS"
	// patience bounds every wait for a condition.
	patience = peer.Patience
)

func TestMain(m *testing.M) {
	if status, entered, _ := launch.Enter(os.Args); entered {
		os.Exit(status)
	}
	if arguments, ok := os.LookupEnv(roleVariable); ok {
		os.Unsetenv(roleVariable)
		os.Exit(execute(strings.Fields(arguments), streams{os.Stdin, os.Stdout, os.Stderr}))
	}
	os.Exit(m.Run())
}

// in runs a test in each isolation that can be had here.
func in(t *testing.T, test func(*testing.T, string)) { peer.In(t, test) }

// user is a program under test, and who speaks to it.
type user struct {
	*peer.Conn[message]
	t     *testing.T
	errs  bytes.Buffer
	state string
	rung  string
}

// message is whatever the server says.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Token    json.RawMessage `json:"progressToken"`
		Message  string          `json:"message"`
		Progress float64         `json:"progress"`
	} `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	raw string
}

// underTest is the program under test, with a state directory of its own. What its
// jobs leave is stopped when the test ends.
func underTest(t *testing.T, rung string, arguments ...string) (cmd *exec.Cmd, state string) {
	t.Helper()
	state = filepath.Join(t.TempDir(), "state")
	t.Cleanup(func() { sweep(t, state) })
	return underTestIn(state, rung, arguments...), state
}

func underTestIn(state, rung string, arguments ...string) *exec.Cmd {
	return peer.Command(rung, state, roleVariable+"="+strings.Join(append([]string{"--max-running=64"}, arguments...), " "))
}

// sweep stops whatever is left on record.
func sweep(t *testing.T, state string) {
	jobs, _ := os.ReadDir(state + "/jobs")
	if len(jobs) == 0 {
		return
	}
	p := talk(t, underTestIn(state, ""))
	for _, j := range jobs {
		p.call("stop", map[string]any{"name": j.Name(), "grace_ms": 0})
	}
	p.end(0)
	// A keeper is the last to go, and writes until then.
	eventually(func() bool { return os.RemoveAll(state) == nil })
}

func eventually(is func() bool) bool { return peer.Eventually(is) }

// dial starts the program and greets it.
func dial(t *testing.T, rung string, arguments ...string) *user {
	t.Helper()
	cmd, state := underTest(t, rung, arguments...)
	p := talk(t, cmd)
	p.state, p.rung = state, rung
	return p
}

func talk(t *testing.T, cmd *exec.Cmd) *user {
	t.Helper()
	p := begin(t, cmd)
	go p.Read(p.Out)
	p.greet()
	return p
}

// begin starts the program; nobody reads what it says yet.
func begin(t *testing.T, cmd *exec.Cmd) *user {
	t.Helper()
	p := &user{t: t}
	cmd.Stderr = &p.errs
	p.Conn = peer.Begin(t, cmd, func(line string) message {
		m := message{raw: line}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			m.Method = "not JSON: " + err.Error()
		}
		return m
	})
	return p
}

func (p *user) greet() {
	p.t.Helper()
	id := p.Ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "test", "version": "1"}})
	if m := p.answer(id); m.Error != nil {
		p.t.Fatal(m.raw)
	}
	p.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// use asks for a tool, with its id as the token of progress.
func (p *user) use(tool string, arguments any) string {
	p.t.Helper()
	token := "p" + strconv.Itoa(p.Next())
	return p.Ask("tools/call", map[string]any{"name": tool, "arguments": arguments, "_meta": map[string]any{"progressToken": token}})
}

func (p *user) answer(id string) message {
	p.t.Helper()
	return p.Find("answer to "+id, 0, func(m *message) bool { return m.Method == "" && string(m.ID) == id })
}

// outcome is the result of a tool.
type outcome struct {
	IsError           bool
	StructuredContent json.RawMessage
	Content           []struct{ Type, Text string }
}

// outcome waits for what came of a tool.
func (p *user) outcome(id string) (o outcome) {
	p.t.Helper()
	m := p.answer(id)
	if m.Error != nil {
		p.t.Fatalf("an error: %s", m.raw)
	}
	if err := json.Unmarshal(m.Result, &o); err != nil || len(o.Content) == 0 {
		p.t.Fatalf("%v: %s", err, m.raw)
	}
	return o
}

func (p *user) call(tool string, arguments any) outcome {
	p.t.Helper()
	return p.outcome(p.use(tool, arguments))
}

// into reads the structured result; it is fatal where there is an error.
func (o outcome) into(t *testing.T, result any) {
	t.Helper()
	if o.IsError {
		t.Fatalf("an error: %s", o.Content[0].Text)
	}
	if err := json.Unmarshal(o.StructuredContent, result); err != nil {
		t.Fatalf("%v: %s", err, o.StructuredContent)
	}
}

// fails wants an error of a kind.
func (o outcome) fails(t *testing.T, kind string) {
	t.Helper()
	var f failure
	if err := json.Unmarshal(o.StructuredContent, &f); err != nil || !o.IsError || f.Error == nil || f.Error.Data.Kind != kind || !strings.HasPrefix(o.Content[0].Text, f.Error.Message) {
		t.Fatalf("want an error of kind %s: %v, %s, %+v", kind, err, o.StructuredContent, o.Content)
	}
}

// job is the input for a command.
func (p *user) job(more map[string]any, argv ...string) map[string]any {
	in := map[string]any{"command": argv, "grace_ms": 1000}
	if p.rung != "" {
		in["isolation"] = []string{p.rung}
	}
	for k, v := range more {
		in[k] = v
	}
	return in
}

// end closes the input, and wants the program to end with a status.
func (p *user) end(status int) {
	p.t.Helper()
	p.In.Close()
	p.ends(status)
}

// ends wants the program to end by itself.
func (p *user) ends(status int) {
	p.t.Helper()
	if !p.Silent() {
		p.Cmd.Process.Signal(syscall.SIGQUIT) // it says where it hangs
		p.Cmd.Wait()
		p.t.Fatalf("it does not end:\n%s", p.errs.String())
	}
	p.Cmd.Wait()
	if got := p.Cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("it ended with %d, want %d: %s", got, status, p.errs.String())
	}
}

// alive counts the processes with exactly these arguments of our own jobs.
func alive(argv ...string) (n int) { return peer.Processes(argv...) }
