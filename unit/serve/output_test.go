package serve_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit/serve"
)

func TestStdinIsWrittenAndClosed(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		name := c.start(map[string]any{"stdin": "pipe", "output": map[string]any{"merged": true}}, "sh", "-c", "cat; echo end >&2")
		// What is sent at once comes in that order.
		var ids []string
		for _, s := range []any{"a\n", "é\n", map[string]string{"base64": "Ygo="}} {
			ids = append(ids, c.ask("job.write", map[string]any{"name": name, "data": s}))
		}
		ids = append(ids, c.ask("job.closeStdin", map[string]any{"name": name}))
		for _, id := range ids {
			c.answer(id).into(t, nil)
		}
		if rep := c.settled(name); code(rep) != 0 {
			t.Errorf("%+v", rep)
		}
		if got := c.all(name, "stdout"); got != "a\né\nb\nend\n" {
			t.Errorf("%q", got)
		}
		c.fails("stdin", "job.write", map[string]any{"name": name, "data": "x"})

		// Who does not read is written to no more, and the server goes on.
		name = c.start(map[string]any{"stdin": "pipe"}, "sleep", "360")
		e := c.fails("stdin", "job.write", map[string]any{"name": name, "data": strings.Repeat("x", 1<<20+1)})
		if *e.Data.Room != 1<<20 || !strings.Contains(e.Message, "at most 1048576") {
			t.Errorf("%+v", e)
		}
		big := strings.Repeat("x", 256<<10)
		e = nil
		for i := 0; e == nil && i < 20; i++ {
			e = c.do("job.write", map[string]any{"name": name, "data": big}).Error
		}
		if e == nil || e.Data.Kind != "stdin" || e.Data.Room == nil || *e.Data.Room >= len(big) {
			t.Fatalf("%+v", e)
		}
		c.call("job.stop", map[string]any{"name": name}, nil)
		name = c.start(nil, "true")
		c.fails("stdin", "job.write", map[string]any{"name": name, "data": "x"})
		c.fails("not_found", "job.write", map[string]any{"name": "nobody", "data": "x"})
	})
}

func TestTextIsWhole(t *testing.T) {
	c := dial(t, "group", options{})
	// The bytes of one character come apart, and some are of none.
	r := c.run(nil, "sh", "-c", `printf '\303'; sleep .1; printf '\251 \360\237'; sleep .1; printf '\230\200 \377 \342\202'`)
	if got := c.all(r.Name, "stdout"); got != "é 😀 � �" {
		t.Errorf("%q", got)
	}
	at := int64(0)
	for _, m := range c.Said() {
		var o serve.Output
		if m.Method != "job/output" || json.Unmarshal(m.Params, &o) != nil {
			continue
		}
		if o.Offset != at {
			t.Errorf("byte %d, want %d: %s", o.Offset, at, m.raw)
		}
		at += int64(o.Bytes)
	}
	if at != 12 || *r.Report.Streams.StdoutBytes != 12 {
		t.Errorf("%d bytes, %d in the report", at, *r.Report.Streams.StdoutBytes)
	}
}

func TestFilesAreTheJobsOwn(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		dir := t.TempDir()
		out, errs := filepath.Join(dir, "out"), filepath.Join(dir, "err")
		os.WriteFile(out, []byte("old"), 0o600)
		c.run(map[string]any{"output": map[string]any{"mode": "files", "stdout": out, "stderr": errs}}, "sh", "-c", "echo a; echo b >&2; readlink /proc/$$/fd/1")
		wantFile(t, out, "a\n"+out+"\n")
		wantFile(t, errs, "b\n")
		c.run(map[string]any{"output": map[string]any{"mode": "files", "stdout": out, "stderr": out, "append": true}}, "sh", "-c", "echo c; echo d >&2")
		wantFile(t, out, "a\n"+out+"\nc\nd\n")
	})
}

func wantFile(t *testing.T, file, want string) {
	t.Helper()
	if b, err := os.ReadFile(file); err != nil || string(b) != want {
		t.Errorf("%s has %q, %v; want %q", file, b, err, want)
	}
}

func TestOutputIsLimited(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		r := c.run(map[string]any{"output": map[string]any{"max_bytes": 1000, "on_max": "stop"}}, "sh", "-c", "yes & yes >&2")
		if reason(r.Report) != "output-limit" || !r.Report.Confirmed {
			t.Errorf("%+v", r.Report)
		}
		if n := len(c.all(r.Name, "stdout")) + len(c.all(r.Name, "stderr")); n != 1000 {
			t.Errorf("%d bytes", n)
		}
		c.told("job/dropped", r.Name)
		r = c.run(map[string]any{"output": map[string]any{"max_bytes": 1000}}, "sh", "-c", "head -c 5000 /dev/zero; exit 6")
		if code(r.Report) != 6 || *r.Report.Streams.StdoutBytes != 5000 || *r.Report.Streams.DroppedBytes != 4000 {
			t.Errorf("%+v", r.Report.Streams)
		}
		if got := c.dropped(r.Name); got != 4000 {
			t.Errorf("%d bytes were told to be dropped", got)
		}
		// Captured, both streams have a cap of their own.
		r = c.run(map[string]any{"output": map[string]any{"mode": "capture", "max_bytes": 1000, "on_max": "stop"}}, "sh", "-c", "yes")
		if reason(r.Report) != "output-limit" || !r.Report.Confirmed {
			t.Errorf("%+v", r.Report)
		}
	})
}

// dropped is how much of a job's output was told to be dropped.
func (c *client) dropped(name string) (n int64) {
	for _, m := range c.Said() {
		var d serve.Dropped
		if m.Method == "job/dropped" && m.name == name && json.Unmarshal(m.Params, &d) == nil {
			n += d.Bytes
		}
	}
	return n
}

func TestOutputByCursor(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		for _, mode := range []string{"notify", "capture"} {
			r := c.run(map[string]any{"output": map[string]any{"mode": mode}}, "sh", "-c", "printf 0123456789; printf abc >&2")
			var o serve.OutputResult
			c.call("job.output", map[string]any{"name": r.Name, "stream": "stdout", "max_bytes": 4}, &o)
			if len(o.Chunks) != 1 || o.Chunks[0].Data != "0123" || !o.More || o.Ended || o.Cursor != "o4e0" {
				t.Errorf("%s: %+v", mode, o)
			}
			c.call("job.output", map[string]any{"name": r.Name, "cursor": o.Cursor, "encoding": "base64"}, &o)
			if len(o.Chunks) != 2 || o.Chunks[0].Data != "NDU2Nzg5" || o.Chunks[1].Data != "YWJj" || !o.Ended || o.More || o.Cursor != "o10e3" {
				t.Errorf("%s: %+v", mode, o)
			}
			c.call("job.output", map[string]any{"name": r.Name, "cursor": o.Cursor}, &o)
			if len(o.Chunks) != 0 || !o.Ended || o.More {
				t.Errorf("%s: %+v", mode, o)
			}
			for _, bad := range []string{"o11e0", "x", "o1"} {
				if e := c.fails("usage", "job.output", map[string]any{"name": r.Name, "cursor": bad}); e.Data.Field != "cursor" {
					t.Errorf("%s: %+v", mode, e)
				}
			}
		}
	})
}

// There is no more to read where a stream has come to, though it goes on: half a
// character is not more either, and nobody need ask again to learn that.
func TestOutputHasNoMore(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		for _, mode := range []string{"notify", "capture"} {
			name := c.start(map[string]any{"leftovers": "wait", "output": map[string]any{"mode": mode}}, "sh", "-c", `printf 'ab\303'; sleep 374 &`)
			var o serve.OutputResult
			if !eventually(func() bool {
				c.call("job.output", map[string]any{"name": name}, &o)
				return o.Cursor == "o2e0"
			}) {
				t.Fatalf("%s: %+v", mode, o)
			}
			if o.More || o.Ended {
				t.Errorf("%s: all was read that there is: %+v", mode, o)
			}
			c.call("job.output", map[string]any{"name": name, "stream": "stdout", "max_bytes": 4, "encoding": "base64"}, &o)
			if o.More || o.Ended || o.Cursor != "o3e0" {
				t.Errorf("%s: %+v", mode, o)
			}
			c.call("job.stop", map[string]any{"name": name}, nil)
		}
	})
}

// Somebody outside of a job has its output, and keeps it when all of the job has
// ended: nobody says then that it is closed, and nobody waits for that.
func TestOutputIsGivenUp(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		name := c.start(map[string]any{"output": map[string]any{"merged": true}}, "sh", "-c", "echo up; exec sleep 3731")
		c.told("job/output", name)
		var started serve.Started
		if err := json.Unmarshal(c.told("job/started", name).Params, &started); err != nil {
			t.Fatal(err)
		}
		held, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", started.PID), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		wait := c.ask("job.wait", map[string]any{"name": name, "for": "streams"})
		c.call("job.stop", map[string]any{"name": name}, nil)
		if rep := c.settled(name); rep.Streams.State != "held" || !rep.Confirmed {
			t.Errorf("%+v", rep.Streams)
		}
		var w serve.WaitResult
		if c.answer(wait).into(t, &w); w.Reached || w.Facts.Streams || !w.Facts.Settled {
			t.Errorf("%+v", w)
		}
		var o serve.OutputResult
		if c.call("job.output", map[string]any{"name": name}, &o); !o.Ended || o.Facts.Streams || len(o.Chunks) != 1 {
			t.Errorf("%+v", o)
		}
		for _, m := range c.Said() {
			if m.Method == "job/streams" {
				t.Errorf("%s", m.raw)
			}
		}
	})
}

// What is kept by request is neither waited for nor ended.
func TestKeptLeftoversAreLeft(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		c := dial(t, rung, options{state: state})
		name := c.start(map[string]any{"leftovers": "keep", "output": map[string]any{"mode": "null"}}, "sh", "-c", "setsid sleep 370 >/dev/null 2>&1 & exit 3")
		var w serve.WaitResult
		c.call("job.wait", map[string]any{"name": name, "for": "exit"}, &w)
		if !w.Reached || code(w.Report) != 3 || w.Facts.Tree {
			t.Errorf("%+v", w)
		}
		eventually(func() bool {
			var s serve.JobResult
			c.call("job.status", map[string]any{"name": name}, &s)
			return s.Report.State == "ended"
		})
		if e := c.end(); len(e.Left) != 1 || !e.Confirmed {
			t.Errorf("%+v", e)
		}
		if !eventually(func() bool { return processes("sleep", "370") == 1 }) {
			t.Error("it is gone")
		}
		c = dial(t, rung, options{state: state})
		var s serve.StopResult
		c.call("job.stop", map[string]any{"name": name}, &s)
		if !s.Confirmed || code(s.Report) != 3 {
			t.Errorf("%+v", s)
		}
	})
}
