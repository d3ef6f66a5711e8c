package e2e

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

// trace is a tracer at work: see tracer_test.go.
type trace struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	said string

	mu   sync.Mutex
	news []news
	more chan struct{} // holds a word when there is news
}

func startTrace(t testing.TB, dir string) *trace {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	x := &trace{t: t, cmd: exec.Command(self), said: filepath.Join(dir, "said"), more: make(chan struct{}, 1)}
	x.cmd.Env = append(os.Environ(), tracerVariable+"="+program(t))
	x.cmd.Stderr = os.Stderr
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := x.cmd.StdoutPipe()
	if err == nil {
		x.in, err = x.cmd.StdinPipe()
	}
	if err == nil {
		err = x.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go x.listen(out)
	return x
}

func (x *trace) listen(out io.Reader) {
	for d := json.NewDecoder(out); ; {
		var n news
		if d.Decode(&n) != nil {
			return
		}
		x.mu.Lock()
		x.news = append(x.news, n)
		x.mu.Unlock()
		select {
		case x.more <- struct{}{}:
		default:
		}
	}
}

// do gives the tracer an errand.
func (x *trace) do(e errand) {
	x.t.Helper()
	b, err := json.Marshal(e)
	if err == nil {
		_, err = x.in.Write(append(b, '\n'))
	}
	if err != nil {
		x.t.Fatalf("the tracer does not take %v: %v", e, err)
	}
}

// spawn runs a command line traced; id is its role. Its standard streams are
// the trace's own.
func (x *trace) spawn(id string, c *exec.Cmd) {
	x.do(errand{Do: "spawn", ID: id, Argv: append([]string{c.Path}, c.Args[1:]...), Env: c.Env, Said: x.said})
}

// find is the first news of a kind, of an id if that is not empty.
func (x *trace) find(what, id string) (news, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, n := range x.news {
		if n.What == what && (id == "" || n.ID == id) {
			return n, true
		}
	}
	return news{}, false
}

// points are those that were passed.
func (x *trace) points() []point {
	x.mu.Lock()
	defer x.mu.Unlock()
	var all []point
	for _, n := range x.news {
		if n.What == "point" {
			all = append(all, n.Point)
		}
	}
	return all
}

// await waits for a condition, looking again at news and now and then.
func (x *trace) await(ok func() bool) bool {
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			return false
		}
		select {
		case <-x.more:
		case <-time.After(10 * time.Millisecond):
		}
	}
	return true
}

// close lets everything that is traced go on by itself.
func (x *trace) close() {
	_ = json.NewEncoder(x.in).Encode(errand{Do: "quit"})
	x.in.Close()
	ended := make(chan error, 1)
	go func() { ended <- x.cmd.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			x.t.Errorf("the tracer: %v", err)
		}
	case <-time.After(patience):
		x.cmd.Process.Kill()
		x.t.Errorf("the tracer does not end")
	}
}
