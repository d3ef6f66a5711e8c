package serve_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/tests/peer"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

// patience bounds every wait for a condition.
const patience = peer.Patience

// message is one of the server, whatever it is.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *serve.Error    `json:"error"`
	// name is that of the job that a notification is about.
	name string
	raw  string
}

// client is a server and its client.
type client struct {
	*peer.Conn[message]
	t     testing.TB
	state string
	rung  string
}

// options of a server.
type options struct {
	state   string
	running int
	// deaf is a client that does not read by itself.
	deaf bool
	// raw sends no initialize.
	raw bool
	// hold is for Server.Hold; empty is for nothing.
	hold string
	// uid is who the server is, and program is what he runs: a copy of this one
	// that he can read. 0 is who the test is.
	uid     uint32
	program string
}

// in runs a test in each isolation.
func in(t *testing.T, test func(*testing.T, string)) { peer.In(t, test) }

// dial starts a server. What it leaves is stopped when the test ends.
func dial(t testing.TB, rung string, o options) *client {
	t.Helper()
	if o.state == "" {
		o.state = stateDir(t)
		t.Cleanup(func() { sweep(t, o.state) })
	}
	if o.running == 0 {
		o.running = 64
	}
	cmd := peer.Command(rung, o.state, roleVariable+"="+strconv.Itoa(o.running))
	cmd.Env = append(cmd.Env, holdVariable+"="+o.hold)
	cmd.Stderr = os.Stderr
	if o.uid != 0 {
		cmd.Path = o.program
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: o.uid, Gid: o.uid}}
	}
	c := &client{peer.Begin(t, cmd, readMessage), t, o.state, rung}
	if !o.deaf {
		go c.Read(c.Out)
	}
	if !o.raw && !o.deaf {
		c.call("initialize", map[string]any{"client": map[string]string{"name": "test"}}, nil)
	}
	return c
}

// kill ends the server as nobody can prevent.
func (c *client) kill() { c.Kill() }

// sweep stops whatever a test has left on record.
func sweep(t testing.TB, state string) {
	jobs, _ := os.ReadDir(state + "/jobs")
	if len(jobs) == 0 {
		return
	}
	c := dial(t, "", options{state: state})
	for _, j := range jobs {
		grace := int64(0)
		c.do("job.stop", serve.StopParams{Name: j.Name(), GraceMS: &grace})
	}
	c.end()
	// A keeper is the last to go, and writes until then.
	eventually(func() bool { return os.RemoveAll(state) == nil })
}

func eventually(is func() bool) bool { return peer.Eventually(is) }

// readMessage reads a line of the server.
func readMessage(line string) message {
	m := message{raw: line}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		m.Method = "not JSON: " + err.Error()
	}
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(m.Params, &named) == nil {
		m.name = named.Name
	}
	return m
}

func (c *client) send(line string) {
	c.t.Helper()
	c.Send(line)
}

func (c *client) ask(method string, params any) string {
	c.t.Helper()
	return c.Ask(method, params)
}

func (c *client) find(what string, is func(*message) bool) message {
	c.t.Helper()
	return c.Find(what, 0, is)
}

func (c *client) answer(id string) message {
	c.t.Helper()
	return c.find("answer to "+id, func(m *message) bool { return m.Method == "" && string(m.ID) == id })
}

// do sends a request and returns its answer.
func (c *client) do(method string, params any) message {
	c.t.Helper()
	return c.answer(c.ask(method, params))
}

// call wants a result.
func (c *client) call(method string, params, result any) {
	c.t.Helper()
	m := c.do(method, params)
	m.into(c.t, result)
}

func (m message) into(t testing.TB, result any) {
	t.Helper()
	if m.Error != nil {
		t.Fatalf("an error: %s", m.raw)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			t.Fatalf("%v: %s", err, m.raw)
		}
	}
}

// fails wants an error of a kind.
func (c *client) fails(kind, method string, params any) *serve.Error {
	c.t.Helper()
	return c.do(method, params).fails(c.t, kind)
}

func (m message) fails(t testing.TB, kind string) *serve.Error {
	t.Helper()
	if m.Error == nil || m.Error.Data.Kind != kind {
		t.Fatalf("want an error of kind %s, got %s", kind, m.raw)
	}
	if m.Error.Message == "" || m.Error.Data.Hints == nil {
		t.Errorf("an error without a message or hints: %s", m.raw)
	}
	return m.Error
}

// told waits for a notification about a job.
func (c *client) told(method, name string) message {
	c.t.Helper()
	return c.find(method+" of "+name, func(m *message) bool { return m.Method == method && m.name == name })
}

// settled waits for the end of a job.
func (c *client) settled(name string) unit.Report {
	c.t.Helper()
	var p serve.Settled
	m := c.told("job/settled", name)
	if err := json.Unmarshal(m.Params, &p); err != nil {
		c.t.Fatal(err)
	}
	return p.Report
}

// job is a job with defaults of the test.
func (c *client) job(more map[string]any, argv ...string) map[string]any {
	p := map[string]any{"command": argv, "grace_ms": 1000}
	if c.rung != "" {
		p["isolation"] = []string{c.rung}
	}
	for k, v := range more {
		p[k] = v
	}
	return p
}

// start starts a job and returns its name.
func (c *client) start(more map[string]any, argv ...string) string {
	c.t.Helper()
	var r serve.StartResult
	c.call("job.start", c.job(more, argv...), &r)
	return r.Name
}

func (c *client) run(more map[string]any, argv ...string) serve.RunResult {
	c.t.Helper()
	var r serve.RunResult
	c.call("job.run", c.job(more, argv...), &r)
	return r
}

// end closes the server's input and wants it to end.
func (c *client) end() (ended serve.Ended) {
	c.t.Helper()
	c.In.Close()
	return c.ends()
}

// ends wants the server to end.
func (c *client) ends() (ended serve.Ended) {
	c.t.Helper()
	m := c.find("server/ended", func(m *message) bool { return m.Method == "server/ended" })
	if err := json.Unmarshal(m.Params, &ended); err != nil {
		c.t.Fatal(err)
	}
	c.leaves()
	return ended
}

// leaves wants the server to end, and its last message to be the last.
func (c *client) leaves() {
	c.t.Helper()
	c.Silent()
	done := make(chan error, 1)
	go func() { done <- c.Cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		c.t.Fatal("the server does not end")
	}
	if said := c.Said(); len(said) > 0 && said[len(said)-1].Method != "server/ended" {
		c.t.Errorf("the last message is %s", said[len(said)-1].raw)
	}
}

// all is the output of a job that was told, by stream.
func (c *client) all(name, stream string) string {
	var b strings.Builder
	for _, m := range c.Said() {
		var o serve.Output
		if m.Method == "job/output" && m.name == name && json.Unmarshal(m.Params, &o) == nil && o.Stream == stream {
			b.WriteString(o.Data)
		}
	}
	return b.String()
}

func code(rep unit.Report) int {
	if rep.Exit.Code == nil {
		return -1
	}
	return *rep.Exit.Code
}

func reason(rep unit.Report) string {
	if rep.Reason == nil {
		return ""
	}
	return string(*rep.Reason)
}
