package serve_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

// patience bounds every wait for a condition. It is no expectation: a test that
// waits this long has failed.
const patience = 20 * time.Second

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
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	state string
	rung  string
	// out is the server's output, where nobody reads it by itself.
	out io.ReadCloser

	mu   sync.Mutex
	cond *sync.Cond
	got  []message
	eof  bool
	id   int
}

// options of a server.
type options struct {
	state   string
	running int
	// deaf is a client that does not read by itself.
	deaf bool
	// raw sends no initialize.
	raw bool
	// hold is for Server.HoldKept.
	hold bool
}

// rungs are the isolations that can be used here: those that the environment
// allows to test.
func rungs(t testing.TB) []string {
	if os.Getenv("UNITWARD_RIG") != "" {
		return []string{"service", "scope", "cgroup", "group"}
	}
	return []string{"cgroup", "group"}
}

// in runs a test in each isolation.
func in(t *testing.T, test func(*testing.T, string)) {
	for _, rung := range rungs(t) {
		t.Run(rung, func(t *testing.T) {
			if rung == "cgroup" && os.Getenv("UNITWARD_RIG") == "" && os.Geteuid() != 0 {
				t.Skip("cgroup: an ordinary user has no delegated cgroup here; the rig has")
			}
			test(t, rung)
		})
	}
}

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
	c := &client{t: t, state: o.state, rung: rung}
	c.cond = sync.NewCond(&c.mu)
	argv := []string{os.Args[0]}
	if rung == "cgroup" && os.Geteuid() != 0 {
		// Where the user's manager lets a cgroup be made.
		argv = append([]string{"systemd-run", "--user", "--scope", "--collect", "--quiet", "-p", "Delegate=yes", "--"}, argv...)
	}
	c.cmd = exec.Command(argv[0], argv[1:]...)
	c.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, roleVariable) }),
		roleVariable+"="+strconv.Itoa(o.running), "UNITWARD_STATE_DIR="+o.state)
	if o.hold {
		c.cmd.Env = append(c.cmd.Env, holdVariable+"=1")
	}
	c.cmd.Dir = "/"
	c.cmd.Stderr = os.Stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in = in
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.kill() })
	if o.deaf {
		c.out = out
	} else {
		go c.read(out)
	}
	if !o.raw && !o.deaf {
		c.call("initialize", map[string]any{"client": map[string]string{"name": "test"}}, nil)
	}
	return c
}

// kill ends the server as nobody can prevent.
func (c *client) kill() {
	if c.cmd.ProcessState == nil {
		c.cmd.Process.Kill()
		c.cmd.Wait()
	}
}

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

func eventually(is func() bool) bool {
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func (c *client) read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadBytes('\n')
		c.mu.Lock()
		if err != nil {
			c.eof = true
			c.cond.Broadcast()
			c.mu.Unlock()
			return
		}
		m := message{raw: string(line)}
		if err := json.Unmarshal(line, &m); err != nil {
			m.Method = "not JSON: " + err.Error()
		}
		var named struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(m.Params, &named) == nil {
			m.name = named.Name
		}
		c.got = append(c.got, m)
		c.cond.Broadcast()
		c.mu.Unlock()
	}
}

// send writes a line as it is.
func (c *client) send(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatalf("cannot write %.80s: %v", line, err)
	}
}

// ask sends a request and returns its id.
func (c *client) ask(method string, params any) string {
	c.t.Helper()
	c.mu.Lock()
	c.id++
	id := strconv.Itoa(c.id)
	c.mu.Unlock()
	b, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, b))
	return id
}

// find waits for a message; it is fatal when none comes.
func (c *client) find(what string, is func(*message) bool) message {
	c.t.Helper()
	timer := time.AfterFunc(patience, func() { c.mu.Lock(); c.cond.Broadcast(); c.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	for from := 0; ; {
		for ; from < len(c.got); from++ {
			if is(&c.got[from]) {
				return c.got[from]
			}
		}
		if c.eof || !time.Now().Before(deadline) {
			var all bytes.Buffer
			for _, m := range c.got {
				all.WriteString(m.raw)
			}
			c.t.Fatalf("no %s; there was:\n%s", what, all.String())
		}
		c.cond.Wait()
	}
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
	c.in.Close()
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
	c.find2()
	done := make(chan error, 1)
	go func() { done <- c.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(patience):
		c.t.Fatal("the server does not end")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.got); n > 0 && c.got[n-1].Method != "server/ended" {
		c.t.Errorf("the last message is %s", c.got[n-1].raw)
	}
}

// find2 waits for the end of the server's output.
func (c *client) find2() {
	timer := time.AfterFunc(patience, func() { c.mu.Lock(); c.eof = true; c.cond.Broadcast(); c.mu.Unlock() })
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.eof {
		c.cond.Wait()
	}
}

// all is the output of a job that was told, by stream.
func (c *client) all(name, stream string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	for _, m := range c.got {
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
