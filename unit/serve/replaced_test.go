package serve_test

import (
	"testing"

	"github.com/unitward/unitward/unit/serve"
)

// A name can be used again once its job has settled. The newest record answers, also
// where a server remembers the job before: of a stop that it confirms nothing runs.
func TestNewestRecordAnswers(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		state := stateDir(t)
		t.Cleanup(func() { sweep(t, state) })
		// Each server remembers a job of the name that has settled, and hears of the
		// newer one by one request.
		for method, hears := range map[string]func(*testing.T, *client){
			"job.stop": func(t *testing.T, c *client) {
				var r serve.StopResult
				if c.call("job.stop", map[string]any{"name": "dev"}, &r); !r.Confirmed || reason(r.Report) != "cancelled" {
					t.Errorf("%+v", r)
				}
			},
			"job.stopOwner": func(t *testing.T, c *client) {
				var r serve.StopOwnerResult
				if c.call("job.stopOwner", map[string]any{"owner": "o"}, &r); !r.Confirmed || len(r.Stopped) != 1 {
					t.Errorf("%+v", r)
				}
			},
			"job.status": func(t *testing.T, c *client) {
				var r serve.JobResult
				if c.call("job.status", map[string]any{"name": "dev"}, &r); r.Report.State != "running" || r.Facts != (serve.Facts{}) {
					t.Errorf("%+v", r)
				}
			},
			"job.list": func(t *testing.T, c *client) {
				var r serve.ListResult
				if c.call("job.list", map[string]any{}, &r); len(r.Jobs) != 1 || r.Jobs[0].Report.State != "running" || r.Jobs[0].Facts != (serve.Facts{}) {
					t.Errorf("%+v", r)
				}
			},
			"job.wait": func(t *testing.T, c *client) {
				var r serve.WaitResult
				if c.call("job.wait", map[string]any{"name": "dev", "timeout_ms": 0}, &r); r.Reached || !r.TimedOut || r.Report.State != "running" || r.Facts != (serve.Facts{}) {
					t.Errorf("%+v", r)
				}
			},
			"job.output": func(t *testing.T, c *client) {
				var r serve.OutputResult
				if c.call("job.output", map[string]any{"name": "dev"}, &r); r.Ended || r.Facts != (serve.Facts{}) {
					t.Errorf("%+v", r)
				}
			},
			"job.track": func(t *testing.T, c *client) {
				var r serve.JobResult
				if c.call("job.track", map[string]any{"name": "dev"}, &r); r.Report.State != "running" || r.Facts != (serve.Facts{}) {
					t.Errorf("%+v", r)
				}
			},
		} {
			t.Run(method, func(t *testing.T) {
				c, other := dial(t, rung, options{state: state}), dial(t, rung, options{state: state})
				if r := c.run(map[string]any{"name": "dev", "owner": "o"}, "sh", "-c", "echo old; exit 5"); code(r.Report) != 5 {
					t.Fatalf("%+v", r)
				}
				other.start(map[string]any{"name": "dev", "owner": "o", "output": map[string]any{"mode": "capture"}}, "sleep", "4813")
				hears(t, c)
				var r serve.StopResult
				if c.call("job.stop", map[string]any{"name": "dev"}, &r); !r.Confirmed || reason(r.Report) != "cancelled" {
					t.Fatalf("%+v", r)
				}
				if n := processes("sleep", "4813"); n != 0 {
					t.Errorf("%d processes of it are left", n)
				}
				// Of one whose record is gone the server still knows.
				other.settled("dev")
				c.run(map[string]any{"name": "dev"}, "sh", "-c", "exit 6")
				other.call("job.release", map[string]any{"name": "dev"}, nil)
				var st serve.JobResult
				if c.call("job.status", map[string]any{"name": "dev"}, &st); code(st.Report) != 6 || !st.Facts.Settled {
					t.Errorf("%+v", st)
				}
			})
		}
	})
}
