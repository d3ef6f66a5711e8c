package peer

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Conn is a program under test, and who speaks to it. M is what a message of the
// program is read into.
type Conn[M any] struct {
	T   testing.TB
	Cmd *exec.Cmd
	In  io.WriteCloser
	// Out is what the program says, where nobody reads it by Read.
	Out io.ReadCloser

	read  func(line string) M
	mu    sync.Mutex
	cond  *sync.Cond
	lines []string
	said  []M
	ended bool
	last  int
}

// Begin starts the program, which ends with the test. read makes a message of a
// line; nobody reads before Read.
func Begin[M any](t testing.TB, cmd *exec.Cmd, read func(line string) M) *Conn[M] {
	t.Helper()
	c := &Conn[M]{T: t, Cmd: cmd, read: read}
	c.cond = sync.NewCond(&c.mu)
	var err error
	if c.In, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if c.Out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	return c
}

// Kill ends the program as nobody can prevent. It can be called again.
func (c *Conn[M]) Kill() {
	if c.Cmd.ProcessState == nil {
		_ = c.Cmd.Process.Kill()
		_ = c.Cmd.Wait()
	}
}

// Read takes what the program says, which is Out or what is left of it, until it
// says no more.
func (c *Conn[M]) Read(out io.Reader) {
	r := bufio.NewReader(out)
	for {
		line, err := r.ReadString('\n')
		c.mu.Lock()
		if err == nil {
			c.lines, c.said = append(c.lines, line), append(c.said, c.read(line))
		}
		c.ended = err != nil
		c.cond.Broadcast()
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Said is what has come by now, in its order.
func (c *Conn[M]) Said() []M {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]M(nil), c.said...)
}

// Send writes a line as it is.
func (c *Conn[M]) Send(line string) {
	c.T.Helper()
	if _, err := io.WriteString(c.In, line+"\n"); err != nil {
		c.T.Fatalf("cannot write %.80s: %v", line, err)
	}
}

// Next is the id of the next request.
func (c *Conn[M]) Next() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last + 1
}

// Ask sends a request and returns its id.
func (c *Conn[M]) Ask(method string, params any) string {
	c.T.Helper()
	c.mu.Lock()
	c.last++
	id := strconv.Itoa(c.last)
	c.mu.Unlock()
	b, err := json.Marshal(params)
	if err != nil {
		c.T.Fatal(err)
	}
	c.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, b))
	return id
}

// Find waits for a message among those from a place on; it is fatal when none
// comes.
func (c *Conn[M]) Find(what string, from int, is func(*M) bool) M {
	c.T.Helper()
	timer := time.AfterFunc(Patience, c.stir)
	defer timer.Stop()
	deadline := time.Now().Add(Patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for ; from < len(c.said); from++ {
			if is(&c.said[from]) {
				return c.said[from]
			}
		}
		if c.ended || !time.Now().Before(deadline) {
			c.T.Fatalf("no %s; there was:\n%.4000s", what, strings.Join(c.lines, ""))
		}
		c.cond.Wait()
	}
}

// Silent waits until the program says no more, and reports whether that came
// about.
func (c *Conn[M]) Silent() bool {
	timer := time.AfterFunc(Patience, c.stir)
	defer timer.Stop()
	deadline := time.Now().Add(Patience)
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.ended && time.Now().Before(deadline) {
		c.cond.Wait()
	}
	return c.ended
}

func (c *Conn[M]) stir() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cond.Broadcast()
}
