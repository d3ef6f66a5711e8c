package serve_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// unidentified waits for the nth error that answers no request.
func (c *client) unidentified(nth int) message {
	c.t.Helper()
	n := 0
	return c.find("error without an id", func(m *message) bool {
		if m.Error != nil && string(m.ID) == "null" {
			n++
		}
		return n == nth && m.Error != nil && string(m.ID) == "null"
	})
}

func TestHostileLines(t *testing.T) {
	c := dial(t, "group", options{raw: true})
	c.fails("not_initialized", "job.list", map[string]any{})
	name := ""
	n := 0
	for _, x := range []struct{ line, kind string }{
		{`{`, "parse"},
		{`nonsense`, "parse"},
		{`{"jsonrpc":"2.0","id":70,"method":"job.list"}}`, "parse"},
		{"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"job.\xff\"}", "encoding"},
		{strings.Repeat("[", 20000), "parse"},
		{`[{"jsonrpc":"2.0","id":70,"method":"job.list"}]`, "batch"},
		{`"text"`, "request"},
		{`{"id":70}`, ""},
		{`{"jsonrpc":"2.0","method":"job.list"}`, "request"},
		{`{"jsonrpc":"2.0","id":null,"method":"job.list"}`, "request"},
		{`{"jsonrpc":"2.0","id":1.5,"method":"job.list"}`, "request"},
		{`{"jsonrpc":"2.0","id":{},"method":"job.list"}`, "request"},
		{`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"job.list"}`, "request"},
		{`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"ID":1}}`, "params"},
	} {
		c.send(x.line)
		if x.kind == "" {
			c.answer("70").fails(t, "request")
			continue
		}
		n++
		c.unidentified(n).fails(t, x.kind)
	}
	c.call("initialize", map[string]any{}, nil)
	c.fails("request", "initialize", map[string]any{})
	c.fails("method", "job.explode", map[string]any{})
	c.fails("params", "job.list", []int{1})
	for _, x := range []struct{ id, line, kind string }{
		{`"a"`, `{"jsonrpc":"2.0","id":"a","method":"job.list","extra":1}`, "request"},
		{`"b"`, `{"jsonrpc":"2.0","id":"b","id":"b","method":"job.list"}`, "request"},
		{`"c"`, `{"jsonrpc":"1.0","id":"c","method":"job.list"}`, "request"},
		{`"d"`, `{"jsonrpc":"2.0","id":"d","method":5}`, "request"},
		{`"e"`, `{"jsonrpc":"2.0","id":"e","method":"job.status","params":{"name":"\ud800"}}`, "encoding"},
		{`"f"`, `{"jsonrpc":"2.0","id":"f","method":"job.status","params":{"name":"a","name":"b"}}`, "params"},
		{`"g"`, `{"jsonrpc":"2.0","id":"g","method":"job.start","params":{"command":["true"],"env":{"A":"1","A":"2"}}}`, "params"},
	} {
		c.send(x.line)
		if x.id == `"b"` { // whose it is cannot be told
			n++
			c.unidentified(n).fails(t, x.kind)
			continue
		}
		c.answer(x.id).fails(t, x.kind)
	}
	// Two requests of one id: the second is refused, the first answered.
	name = c.start(nil, "sleep", "390")
	c.send(`{"jsonrpc":"2.0","id":"twice","method":"job.wait","params":{"name":"` + name + `"}}`)
	c.send(`{"jsonrpc":"2.0","id":"\u0074wice","method":"job.list"}`)
	n++
	if e := c.unidentified(n).fails(t, "duplicate_id"); string(e.Data.ID) != `"\u0074wice"` {
		t.Errorf("%+v", e)
	}
	c.call("job.stop", map[string]any{"name": name}, nil)
	c.answer(`"twice"`).into(t, nil)
}

// rss is the resident memory of a process, in bytes.
func rss(t testing.TB, pid int) int { return memory(t, strconv.Itoa(pid), "VmRSS") }

// memory is one of the sizes of a process (proc_pid_status(5)), in bytes.
func memory(t testing.TB, pid, which string) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatal(err)
	}
	n, err := sizeIn(b, which)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sizeIn is one of the sizes in a process's status.
func sizeIn(status []byte, which string) (int, error) {
	_, rest, _ := strings.Cut(string(status), which+":")
	line, _, _ := strings.Cut(rest, " kB")
	n, err := strconv.Atoi(strings.TrimSpace(line))
	return n << 10, err
}

func TestLongLinesAreSkipped(t *testing.T) {
	c := dial(t, "group", options{})
	name := c.start(nil, "sleep", "391")
	mib := strings.Repeat("x", 1<<20)
	for range 2 {
		io.WriteString(c.In, `{"jsonrpc":"2.0","id":70,"method":"`)
		for range 100 {
			io.WriteString(c.In, mib)
		}
		io.WriteString(c.In, "\"}\n")
	}
	c.unidentified(2).fails(t, "too_long")
	if n := rss(t, c.Cmd.Process.Pid); n > 80<<20 {
		t.Errorf("the server has %d MiB", n>>20)
	}
	// One that is just short enough counts.
	line := `{"jsonrpc":"2.0","id":8,"method":"job.status","params":{"name":"`
	c.send(line + strings.Repeat("x", rpc.MaxLine-len(line)-3) + `"}}`)
	if e := c.answer("8").fails(t, "usage"); len(e.Message) > 300 || e.Data.Field != "name" {
		t.Errorf("%.1000s", e.Message)
	}
	if r := c.run(nil, "true"); code(r.Report) != 0 {
		t.Errorf("%+v", r)
	}
	c.call("job.stop", map[string]any{"name": name}, nil)
}

// A client that does not read costs no job its progress, and the server no
// memory.
func TestClientThatDoesNotRead(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{deaf: true})
		out := pipeOf(t, c)
		dir := t.TempDir()
		os.Chmod(dir, 0o777)
		c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		for i := range 4 {
			b, _ := json.Marshal(c.job(map[string]any{"name": fmt.Sprint("flood", i)}, "sh", "-c", fmt.Sprintf("head -c 100M /dev/zero; touch %s/%d", dir, i)))
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"job.start","params":%s}`, 10+i, b))
		}
		// Requests in a flood, until the server takes no more.
		flooded := make(chan int, 1)
		go func() {
			n := 0
			for ; n < 30_000; n++ {
				if _, err := fmt.Fprintf(c.In, `{"jsonrpc":"2.0","id":"r%d","method":"job.status","params":{"name":"nobody"}}`+"\n", n); err != nil {
					break
				}
			}
			flooded <- n
		}()
		if !eventually(func() bool {
			files, _ := os.ReadDir(dir)
			return len(files) == 4
		}) {
			t.Fatal("jobs are held up by a client that does not read")
		}
		if n := rss(t, c.Cmd.Process.Pid); n > 100<<20 {
			t.Errorf("the server has %d MiB", n>>20)
		}
		select {
		case n := <-flooded:
			t.Errorf("the server took %d requests whose answers nobody reads", n)
		default:
		}
		// It reads after all: no answer is missing, and what is, is counted.
		go c.Read(out)
		for i := range 4 {
			name := fmt.Sprint("flood", i)
			c.answer(fmt.Sprint(10+i)).into(t, nil)
			rep := c.settled(name)
			told := int64(len(c.all(name, "stdout"))) + c.dropped(name)
			if told != 100<<20 || *rep.Streams.StdoutBytes != 100<<20 || *rep.Streams.DroppedBytes != c.dropped(name) {
				t.Errorf("%s: %d bytes were told, %+v", name, told, rep.Streams)
			}
		}
		n := <-flooded
		c.end()
		answers := 0
		for _, m := range c.Said() {
			if strings.HasPrefix(string(m.ID), `"r`) {
				answers++
			}
		}
		if answers != n {
			t.Errorf("%d answers to %d requests", answers, n)
		}
	})
}

// Nor does one that asks for much and does not read it.
func TestLargeAnswersAreBounded(t *testing.T) {
	c := dial(t, "group", options{deaf: true})
	out := bufio.NewReader(c.Out)
	c.send(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{}}`)
	ask := func(id, method string, params any) {
		b, _ := json.Marshal(params)
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, b))
	}
	answer := func(id string) string {
		of := regexp.MustCompile(`^{"jsonrpc":"2.0","id":"` + id + `"`)
		for {
			line, err := out.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if of.MatchString(line) {
				return line
			}
		}
	}
	const asked, size = 50, 4 << 20
	ask("run", "job.run", c.job(map[string]any{"name": "a", "output": map[string]any{"mode": "capture"}}, "head", "-c", strconv.Itoa(size), "/dev/zero"))
	answer("run")
	for i := range asked {
		ask(fmt.Sprint(i), "job.output", map[string]any{"name": "a", "max_bytes": size, "encoding": "base64"})
	}
	most, same := 0, 0
	eventually(func() bool { // until it takes no more
		now := memory(t, strconv.Itoa(c.Cmd.Process.Pid), "VmHWM")
		if same++; now != most {
			most, same = now, 0
		}
		return same > 40
	})
	for range asked {
		if n := len(answer(`[0-9]+`)); n < size*4/3 {
			t.Fatalf("an answer of %d bytes", n)
		}
	}
	if most = memory(t, strconv.Itoa(c.Cmd.Process.Pid), "VmHWM"); most > 150<<20 {
		t.Errorf("the server had %d MiB", most>>20)
	} else {
		t.Logf("the server had %d MiB", most>>20)
	}
}

// A job that lives costs its server a goroutine or two and its descriptors, not a
// stack for each pipe and each wait.
func TestLiveJobsCostLittle(t *testing.T) {
	const first, more, most = 60, 100, 48 << 10
	c := dial(t, "group", options{running: first + more})
	grow := func(n int) int {
		var ids []string
		for range n {
			ids = append(ids, c.ask("job.start", c.job(map[string]any{"owner": "all"}, "sleep", "4750")))
		}
		for _, id := range ids {
			c.answer(id).into(t, nil)
		}
		return rss(t, c.Cmd.Process.Pid)
	}
	before := grow(first) // what many starts at a time cost, they cost once
	if each := (grow(more) - before) / more; each > most {
		t.Errorf("a job costs %d KiB, at most %d are allowed", each>>10, most>>10)
	} else {
		t.Logf("a job costs %d KiB", each>>10)
	}
	c.end()
}

// pipeOf is the standard output of the server of a deaf client.
func pipeOf(t *testing.T, c *client) io.Reader {
	t.Helper()
	return bufio.NewReader(c.Out)
}

// A server whose client is gone ends its jobs, whatever it was about to say.
func TestClientIsGone(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		c := dial(t, rung, options{deaf: true, state: state})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		b, _ := json.Marshal(c.job(nil, "sh", "-c", "sleep 392 & yes"))
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"job.start","params":%s}`, b))
		if !eventually(func() bool { return processes("sleep", "392") == 1 }) {
			t.Fatal("it does not start")
		}
		c.Out.Close() // the input stays open
		done := make(chan error, 1)
		go func() { done <- c.Cmd.Wait() }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Fatal("the server does not end")
		}
		if n := processes("sleep", "392"); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

func TestRequiredCapabilities(t *testing.T) {
	c := dial(t, "group", options{raw: true})
	e := c.fails("capabilities_missing", "initialize", map[string]any{"required": []string{"output.notify", "pty", "teleport", "pty"}})
	if strings.Join(e.Data.Missing, " ") != "pty teleport" || e.Code != serve.CodeCapabilities {
		t.Errorf("%+v", e)
	}
	c.fails("capabilities_missing", "initialize", map[string]any{"protocol": 2})
	c.fails("not_initialized", "doctor", nil)
	var r serve.InitializeResult
	c.call("initialize", map[string]any{"required": []string{"output.files", "promote"}, "protocol": 1}, &r)
	if r.Protocol != 1 || r.Isolation == "" || r.Limits.Line != rpc.MaxLine || !r.Capabilities["abort"] {
		t.Errorf("%+v", r)
	}
}

func TestShutdownAnswersWhatWaits(t *testing.T) {
	c := dial(t, "group", options{})
	name := c.start(map[string]any{"name": "x"}, "sleep", "393")
	wait := c.ask("job.wait", map[string]any{"name": name})
	run := c.ask("job.run", c.job(map[string]any{"name": "y"}, "sleep", "394"))
	c.told("job/started", "y")
	id := c.ask("shutdown", map[string]any{})
	var e serve.Ended
	c.answer(id).into(t, &e)
	if e.Why != "shutdown" || !e.Confirmed || strings.Join(e.Stopped, " ") != "x y" {
		t.Errorf("%+v", e)
	}
	c.answer(wait).into(t, nil)
	c.answer(run).into(t, nil)
	c.leaves()
	if processes("sleep", "39[34]") != 0 {
		t.Error("something is left")
	}
}
