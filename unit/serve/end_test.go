package serve_test

import (
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/unitward/unitward/unit/serve"
)

// The end comes when the main process of a job has ended, and what is left of it
// is about to be left to itself: it is, and nothing of it is stopped.
func TestEndMeetsJobThatIsBeingLeft(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{hold: "kept"})
		other := c.start(nil, "sleep", "4810")
		name := c.start(map[string]any{"leftovers": "keep", "output": map[string]any{"mode": "null"}}, "sh", "-c", "sleep 4811 & until grep -q sleep /proc/$!/comm; do :; done; exit 3")
		c.told("job/exit", name)
		e := c.end()
		if !slices.Equal(e.Left, []string{name}) || !slices.Equal(e.Stopped, []string{other}) || !e.Confirmed {
			t.Errorf("%+v", e)
		}
		if n := processes("sleep", "4811"); n != 1 {
			t.Errorf("%d processes of it are left", n)
		}
	})
}

// What outlives the server goes on though a request waits for it, which is answered;
// but one that its client has cancelled is a job that is stopped.
func TestEndSparesWhatARunWaitsFor(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		for _, how := range []string{"eof", "shutdown", "signal"} {
			c := dial(t, rung, options{state: state})
			run := func(name string, more map[string]any) string {
				more["name"] = name + "-" + how
				id := c.ask("job.run", c.job(more, "sleep", "4812"))
				c.told("job/started", name+"-"+how)
				return id
			}
			waits := []string{
				run("detached", map[string]any{"lifetime": "detached"}),
				run("owned", map[string]any{"lifetime": "owner", "owner_pid": os.Getpid()}),
				run("promoted", map[string]any{"promotable": true}),
			}
			c.call("job.promote", map[string]any{"name": "promoted-" + how}, nil)
			var r serve.RunResult
			id := run("cancelled", map[string]any{"lifetime": "detached"})
			c.send(`{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":` + id + `}}`)
			if c.answer(id).into(t, &r); !r.Cancelled || !r.Report.Confirmed || reason(r.Report) != "cancelled" {
				t.Errorf("%s: cancelled: %+v", how, r)
			}
			var e serve.Ended
			switch how {
			case "eof":
				e = c.end()
			case "shutdown":
				c.ask("shutdown", map[string]any{})
				e = c.ends()
			default:
				if err := c.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Fatal(err)
				}
				e = c.ends()
			}
			if want := []string{"detached-" + how, "owned-" + how, "promoted-" + how}; !slices.Equal(e.Left, want) || len(e.Stopped) != 0 || !e.Confirmed {
				t.Errorf("%+v", e)
			}
			for _, id := range waits {
				if c.answer(id).into(t, &r); !r.Cancelled || r.Facts.Exit || r.Report.State != "running" {
					t.Errorf("%s: %+v", how, r)
				}
			}
		}
		c := dial(t, rung, options{state: state})
		var list serve.ListResult
		if c.call("job.list", map[string]any{}, &list); len(list.Jobs) != 9 {
			t.Errorf("%d jobs are left", len(list.Jobs))
		}
		for _, j := range list.Jobs {
			if j.Report.State != "running" {
				t.Errorf("%+v", j.Report)
			}
		}
	})
}
