package serve_test

import (
	"os"
	"path/filepath"
	"testing"
)

// A job whose record is removed harms no other, and its end is told.
func TestRecordIsRemovedUnderneath(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		c := dial(t, rung, options{})
		other := c.start(nil, "sleep", "350")
		for _, script := range []string{"exit 9", "exec sleep 351"} {
			name := c.start(map[string]any{"timeout_ms": 300, "grace_ms": 100, "stdin": "pipe"}, "sh", "-c", "read go; rm -rf "+filepath.Join(c.state, "jobs", "unitward-sh-*")+"; "+script)
			c.call("job.write", map[string]any{"name": name, "data": "go\n"}, nil)
			rep := c.settled(name)
			if script == "exit 9" && code(rep) != 9 || !rep.Tree.Empty {
				t.Errorf("%s: %+v", script, rep)
			}
			for range 3 {
				if r := c.run(nil, "sh", "-c", "umask"); code(r.Report) != 0 || !r.Report.Confirmed {
					t.Errorf("after %s: %+v", script, r.Report)
				}
			}
		}
		if processes("sleep", "351") != 0 {
			t.Error("it runs on")
		}
		c.call("job.stop", map[string]any{"name": other}, nil)
		os.RemoveAll(c.state)
	})
}
