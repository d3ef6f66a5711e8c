package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/unitward/unitward/unit/serve"
)

func TestPromotedJobOutlivesTheServer(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		c := dial(t, rung, options{state: state})
		go_ := filepath.Join(t.TempDir(), "go")
		os.Chmod(filepath.Dir(go_), 0o755)
		script := "echo a; while ! [ -e " + go_ + " ]; do sleep .03; done; echo b; exit 7"
		name := c.start(map[string]any{"promotable": true, "owner": "o", "output": map[string]any{"follow": true}}, "sh", "-c", script)
		c.told("job/output", name)
		var r serve.JobResult
		c.call("job.promote", map[string]any{"name": name}, &r)
		if r.Report.Lifetime != "detached" || r.Report.State != "running" {
			t.Errorf("promoted: %+v", r)
		}
		b := c.run(map[string]any{"name": "late", "background_after_ms": 100}, "sh", "-c", script)
		if !b.Background || b.Facts.Exit || b.Report.Lifetime != "detached" {
			t.Errorf("background: %+v", b)
		}
		call := c.start(map[string]any{"name": "mine"}, "sleep", "320")
		detached := c.start(map[string]any{"name": "own", "lifetime": "detached", "timeout_ms": 60000}, "sh", "-c", script)
		c.fails("not_promotable", "job.promote", map[string]any{"name": call})
		e := c.end()
		if !e.Confirmed || !slices.Equal(e.Stopped, []string{"mine"}) || !slices.Equal(e.Left, []string{"late", detached, name}) {
			t.Errorf("ended: %+v", e)
		}
		c = dial(t, rung, options{state: state})
		var list serve.ListResult
		c.call("job.list", map[string]any{}, &list)
		if len(list.Jobs) != 3 || len(list.Bad) != 0 {
			t.Errorf("left: %+v", list)
		}
		for _, name := range []string{name, "late", detached} {
			c.call("job.track", map[string]any{"name": name, "follow": true}, nil)
		}
		if err := os.WriteFile(go_, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{name, "late", detached} {
			if rep := c.settled(name); code(rep) != 7 || !rep.Confirmed {
				t.Errorf("%s: %+v", name, rep)
			}
			if got := c.all(name, "stdout"); got != "a\nb\n" {
				t.Errorf("%s wrote %q", name, got)
			}
			var o serve.OutputResult
			c.call("job.output", map[string]any{"name": name, "cursor": "o2e0"}, &o)
			if len(o.Chunks) != 1 || o.Chunks[0].Data != "b\n" || o.Cursor != "o4e0" || !o.Ended {
				t.Errorf("%s: %+v", name, o)
			}
			c.call("job.release", map[string]any{"name": name}, nil)
			c.fails("not_found", "job.status", map[string]any{"name": name})
		}
	})
}

// A client that asks for jobs to be detached and goes at once is told of each what has
// become of it: it was detached and is left, or was not and is stopped.
func TestPromotedAtTheEnd(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		const n = 6
		for round := range 3 {
			c := dial(t, rung, options{state: state})
			asked := map[string]string{}
			for i := range n {
				name := fmt.Sprintf("last-%d-%d", round, i)
				c.start(map[string]any{"name": name, "promotable": true}, "sleep", "4832")
				asked[name] = ""
			}
			for name := range asked {
				asked[name] = c.ask("job.promote", map[string]any{"name": name})
			}
			e := c.end()
			if len(e.Stopped)+len(e.Left) != n || !e.Confirmed || !slices.IsSorted(e.Left) {
				t.Errorf("ended: %+v", e)
			}
			for name, id := range asked {
				promoted := c.answer(id).Error == nil
				if left := slices.Contains(e.Left, name); left != promoted || left == slices.Contains(e.Stopped, name) {
					t.Errorf("%s: promoted %v, %+v", name, promoted, e)
				}
			}
		}
	})
}
