package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/unitward/unitward/unit/serve"
)

// descriptors counts those of the server that are of a kind.
func (c *client) descriptors(kind string) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.Cmd.Process.Pid))
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == kind {
			n++
		}
	}
	return n
}

// Of two requests that make the same job known at the same time one does, and the
// other leaves nothing.
func TestJobIsTrackedOnce(t *testing.T) {
	state := stateDir(t)
	t.Cleanup(func() { sweep(t, state) })
	name := dial(t, "group", options{state: state}).start(map[string]any{"output": map[string]any{"mode": "capture"}}, "sh", "-c", "echo a; exec sleep 3951")
	c := dial(t, "group", options{state: state, hold: "watch"})
	var ids []string
	for range 2 {
		ids = append(ids, c.ask("job.track", map[string]any{"name": name, "follow": true}))
	}
	for _, id := range ids {
		c.answer(id).into(t, nil)
	}
	c.told("job/output", name)
	if n := c.descriptors("anon_inode:inotify"); n != 1 {
		t.Errorf("%d watches", n)
	}
	c.call("job.stop", map[string]any{"name": name}, nil)
	c.settled(name)
	if got := c.all(name, "stdout"); got != "a\n" {
		t.Errorf("%q", got)
	}
}

// A stop of a job that another server started goes on when its request is
// cancelled: what does not heed the signal is killed.
func TestCancelledStopGoesOn(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		a, c := dial(t, rung, options{state: state}), dial(t, rung, options{state: state})
		name := a.start(nil, "sh", "-c", `trap "echo got" TERM; echo up; while :; do sleep .03; done`)
		a.told("job/output", name)
		stop := c.ask("job.stop", map[string]any{"name": name, "grace_ms": 1500})
		if !eventually(func() bool { return a.all(name, "stdout") == "up\ngot\n" }) {
			t.Fatal("it gets no signal")
		}
		c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + stop + `}}`)
		var r serve.StopResult
		if c.answer(stop).into(t, &r); r.Name != name || r.Report.State == "" {
			t.Errorf("%+v", r)
		}
		if rep := a.settled(name); !rep.Confirmed || *rep.Exit.Signal != "KILL" || reason(rep) != "cancelled" {
			t.Errorf("%+v", rep)
		}
	})
}
