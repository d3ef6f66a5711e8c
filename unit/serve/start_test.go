package serve_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/unit/serve"
)

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }

func TestStartsAreAborted(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{running: 2})
		var a serve.AbortResult
		// Before.
		c.call("job.abortStart", map[string]any{"token": "before"}, &a)
		if a.State != "remembered" {
			t.Errorf("before: %+v", a)
		}
		c.do("job.start", c.job(map[string]any{"token": "before"}, "sleep", "380")).fails(t, "aborted")
		// During: it waits for a place.
		one := c.start(map[string]any{"name": "one"}, "sleep", "381")
		c.start(map[string]any{"name": "two", "token": "after"}, "sleep", "382")
		id := c.ask("job.start", c.job(map[string]any{"token": "during"}, "sleep", "383"))
		run := c.ask("job.run", c.job(nil, "sleep", "384"))
		c.do("job.start", c.job(map[string]any{"token": "during"}, "true")).fails(t, "exists")
		c.call("job.abortStart", map[string]any{"token": "during"}, &a)
		if a.State != "aborted" || a.Report != nil {
			t.Errorf("during: %+v", a)
		}
		c.answer(id).fails(t, "aborted")
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + run + `}}`)
		c.answer(run).fails(t, "aborted")
		// After.
		c.call("job.abortStart", map[string]any{"token": "after"}, &a)
		if a.State != "stopped" || a.Name != "two" || a.Report == nil || !a.Report.Confirmed || reason(*a.Report) != "cancelled" {
			t.Errorf("after: %+v", a)
		}
		// Once more, of what has ended.
		c.call("job.abortStart", map[string]any{"token": "after"}, &a)
		if a.State != "stopped" || a.Report == nil || !a.Report.Confirmed {
			t.Errorf("again: %+v", a)
		}
		// At any moment of it.
		for i := range 20 {
			token := map[string]any{"token": string(rune('a' + i))}
			id := c.ask("job.start", c.job(token, "sleep", "385"))
			time.Sleep(time.Duration(i) * time.Millisecond / 2)
			c.call("job.abortStart", token, &a)
			m := c.answer(id)
			if m.Error == nil {
				var r serve.StartResult
				m.into(t, &r)
				if a.State != "stopped" || a.Name != r.Name || !a.Report.Confirmed {
					t.Errorf("%+v, %+v", a, r)
				}
			} else if m.fails(t, "aborted"); a.State != "aborted" && a.State != "stopped" {
				t.Errorf("%+v", a)
			}
		}
		if n := processes("sleep", "38[0345]"); n != 0 {
			t.Errorf("%d are left", n)
		}
		c.call("job.stop", map[string]any{"name": one}, nil)
		c.fails("usage", "job.abortStart", map[string]any{"token": ""})
	})
}

// A start that is given up just when it has joined the job of another server
// leaves that job known here, and nobody who asks for it waits in vain.
func TestAbortedStartHasJoined(t *testing.T) {
	state := stateDir(t)
	t.Cleanup(func() { sweep(t, state) })
	key := map[string]any{"key": "k", "owner": "o"}
	name := dial(t, "group", options{state: state}).start(key, "sleep", "3881")
	c := dial(t, "group", options{state: state, hold: "start"})
	c.do("job.start", c.job(key, "sleep", "3881")).fails(t, "aborted")
	wait := c.ask("job.wait", map[string]any{"name": name})
	var r serve.StopResult
	if c.call("job.stop", map[string]any{"name": name}, &r); !r.Confirmed {
		t.Errorf("%+v", r)
	}
	c.answer(wait).into(t, nil)
	c.settled(name)
}

// A start of an owner that is stopped does not slip through.
func TestStopOwnerReachesStarts(t *testing.T) {
	c := dial(t, "group", options{running: 4})
	var ids []string
	for range 12 {
		ids = append(ids, c.ask("job.start", c.job(map[string]any{"owner": "o"}, "sleep", "386")))
	}
	var r serve.StopOwnerResult
	c.call("job.stopOwner", map[string]any{"owner": "o"}, &r)
	if !r.Confirmed || len(r.Stopped)+r.Aborted != 12 {
		t.Errorf("%+v", r)
	}
	started := 0
	for _, id := range ids {
		if m := c.answer(id); m.Error == nil {
			started++
		} else {
			m.fails(t, "aborted")
		}
	}
	if n := processes("sleep", "386"); n != 0 {
		t.Errorf("%d are left, %d were started, %+v", n, started, r)
	}
}

func TestAdmissionIsFirstComeFirstServed(t *testing.T) {
	c := dial(t, "group", options{running: 1})
	c.start(map[string]any{"name": "a"}, "sleep", "387")
	b := c.ask("job.run", c.job(map[string]any{"name": "b"}, "true"))
	d := c.ask("job.run", c.job(map[string]any{"name": "d"}, "true"))
	c.call("job.stop", map[string]any{"name": "a"}, nil)
	c.answer(b).into(t, nil)
	c.answer(d).into(t, nil)
}
