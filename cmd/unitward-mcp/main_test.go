package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

const (
	// roleVariable makes this program the one under test; its value is the
	// arguments.
	roleVariable = "MCP_TEST_ARGUMENTS"
	// patience bounds every wait for a condition. It is no expectation: a test
	// that waits this long has failed.
	patience = 20 * time.Second
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
func in(t *testing.T, test func(*testing.T, string)) {
	rungs := []string{verify.IsolationCgroup, verify.IsolationGroup}
	rig := os.Getenv("UNITWARD_RIG") != ""
	if rig {
		rungs = append([]string{verify.IsolationService, verify.IsolationScope}, rungs...)
	}
	for _, rung := range rungs {
		t.Run(rung, func(t *testing.T) {
			if rung == verify.IsolationCgroup && !rig && os.Geteuid() != 0 {
				t.Skip("cgroup: an ordinary user has no delegated cgroup here; the rig has")
			}
			test(t, rung)
		})
	}
}

// peer is a program under test, and who speaks to it.
type peer struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   io.ReadCloser
	errs  bytes.Buffer
	state string
	rung  string
	// said is what came, each a line; there is more until ended.
	mu    sync.Mutex
	cond  *sync.Cond
	said  []message
	ended bool
	last  int
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
	argv := []string{os.Args[0]}
	if rung == verify.IsolationCgroup && os.Geteuid() != 0 {
		// Where the user's manager lets a cgroup be made.
		argv = append([]string{"systemd-run", "--user", "--scope", "--collect", "--quiet", "-p", "Delegate=yes", "--"}, argv...)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, roleVariable) }),
		roleVariable+"="+strings.Join(append([]string{"--max-running=64"}, arguments...), " "), "UNITWARD_STATE_DIR="+state)
	cmd.Dir = "/"
	return cmd
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

func eventually(is func() bool) bool {
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// dial starts the program and greets it.
func dial(t *testing.T, rung string, arguments ...string) *peer {
	t.Helper()
	cmd, state := underTest(t, rung, arguments...)
	p := talk(t, cmd)
	p.state, p.rung = state, rung
	return p
}

func talk(t *testing.T, cmd *exec.Cmd) *peer {
	t.Helper()
	p := begin(t, cmd)
	go p.read()
	p.greet()
	return p
}

// begin starts the program; nobody reads what it says yet.
func begin(t *testing.T, cmd *exec.Cmd) *peer {
	t.Helper()
	p := &peer{t: t, cmd: cmd}
	p.cond = sync.NewCond(&p.mu)
	p.cmd.Stderr = &p.errs
	var err error
	if p.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.cmd.Process.Kill()
			p.cmd.Wait()
		}
	})
	return p
}

func (p *peer) greet() {
	p.t.Helper()
	id := p.ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]string{"name": "test", "version": "1"}})
	if m := p.answer(id); m.Error != nil {
		p.t.Fatal(m.raw)
	}
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (p *peer) read() {
	r := bufio.NewReader(p.out)
	for {
		line, err := r.ReadString('\n')
		p.mu.Lock()
		if err != nil {
			p.ended = true
			p.cond.Broadcast()
			p.mu.Unlock()
			return
		}
		m := message{raw: line}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			m.Method = "not JSON: " + err.Error()
		}
		p.said = append(p.said, m)
		p.cond.Broadcast()
		p.mu.Unlock()
	}
}

func (p *peer) send(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatalf("cannot write %.80s: %v", line, err)
	}
}

// ask sends a request and returns its id.
func (p *peer) ask(method string, params any) string {
	p.t.Helper()
	p.mu.Lock()
	p.last++
	id := strconv.Itoa(p.last)
	p.mu.Unlock()
	b, err := json.Marshal(params)
	if err != nil {
		p.t.Fatal(err)
	}
	p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, b))
	return id
}

// use asks for a tool, with its id as the token of progress.
func (p *peer) use(tool string, arguments any) string {
	p.t.Helper()
	p.mu.Lock()
	token := "p" + strconv.Itoa(p.last+1)
	p.mu.Unlock()
	return p.ask("tools/call", map[string]any{"name": tool, "arguments": arguments, "_meta": map[string]any{"progressToken": token}})
}

// find waits for a message; it is fatal when none comes.
func (p *peer) find(what string, is func(*message) bool) message {
	p.t.Helper()
	timer := time.AfterFunc(patience, func() { p.mu.Lock(); p.cond.Broadcast(); p.mu.Unlock() })
	defer timer.Stop()
	deadline := time.Now().Add(patience)
	p.mu.Lock()
	defer p.mu.Unlock()
	for from := 0; ; {
		for ; from < len(p.said); from++ {
			if is(&p.said[from]) {
				return p.said[from]
			}
		}
		if p.ended || !time.Now().Before(deadline) {
			var all strings.Builder
			for _, m := range p.said {
				all.WriteString(m.raw)
			}
			p.t.Fatalf("no %s; there was:\n%.4000s", what, all.String())
		}
		p.cond.Wait()
	}
}

func (p *peer) answer(id string) message {
	p.t.Helper()
	return p.find("answer to "+id, func(m *message) bool { return m.Method == "" && string(m.ID) == id })
}

// outcome is the result of a tool.
type outcome struct {
	IsError           bool
	StructuredContent json.RawMessage
	Content           []struct{ Type, Text string }
}

// outcome waits for what came of a tool.
func (p *peer) outcome(id string) (o outcome) {
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

func (p *peer) call(tool string, arguments any) outcome {
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
func (p *peer) job(more map[string]any, argv ...string) map[string]any {
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
func (p *peer) end(status int) {
	p.t.Helper()
	p.in.Close()
	p.ends(status)
}

// ends wants the program to end by itself.
func (p *peer) ends(status int) {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.mu.Lock()
		for !p.ended {
			p.cond.Wait()
		}
		p.mu.Unlock()
		p.cmd.Wait()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		p.cmd.Process.Signal(syscall.SIGQUIT) // it says where it hangs
		<-done
		p.t.Fatalf("it does not end:\n%s", p.errs.String())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != status {
		p.t.Errorf("it ended with %d, want %d: %s", got, status, p.errs.String())
	}
}

// alive counts the processes with exactly these arguments, but for those of
// other pid namespaces, which are another machine's of the rig.
func alive(argv ...string) (n int) {
	want := strings.Join(argv, "\x00") + "\x00"
	here, _ := os.Readlink("/proc/self/ns/pid")
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range found {
		if b, err := os.ReadFile(f); err != nil || string(b) != want {
			continue
		}
		if there, err := os.Readlink(filepath.Dir(f) + "/ns/pid"); err == nil && there == here {
			n++
		}
	}
	return n
}
