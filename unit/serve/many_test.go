package serve_test

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/unitward/unitward/tests/peer"
	"github.com/unitward/unitward/verify"
)

// liveJobs is how many jobs live at a server's end: as many as SERVE_LIVE says,
// else few enough for every run of the tests, and of root's services more than a
// system bus would let a manager watch (dbus-daemon(1),
// max_match_rules_per_connection); a user's bus has no such bound.
func liveJobs(t *testing.T, rung string) int {
	s := os.Getenv("SERVE_LIVE")
	switch {
	case s == "" && rung == verify.IsolationService && os.Geteuid() == 0:
		return 560
	case s == "":
		return 100
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// mostEnd bounds how long a server ends. It is no expectation.
const mostEnd = 10 * time.Minute

// The end of a server with many live jobs proves the end of each, however long
// they have to wait for one another.
func TestEndOfMany(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		n := liveJobs(t, rung)
		c := dial(t, rung, options{running: n})
		began := time.Now()
		c.startMany(n, "sleep", "4830")
		t.Logf("%d jobs were started in %v", n, time.Since(began))
		pid := strconv.Itoa(c.Cmd.Process.Pid)
		live := memory(t, pid, "VmRSS")
		c.In.Close()
		ending, most := time.Now(), 0
		for over := false; !over && time.Since(ending) < mostEnd; time.Sleep(10 * time.Millisecond) {
			b, _ := os.ReadFile("/proc/" + pid + "/status")
			now, _ := sizeIn(b, "VmHWM") // it may have ended
			most = max(most, now)
			over = slices.ContainsFunc(c.Said(), func(m message) bool { return m.Method == "server/ended" })
		}
		took := time.Since(ending)
		e := c.ends()
		t.Logf("they ended in %v; the server had %d MiB with them, and %d MiB at most", took, live>>20, most>>20)
		if !e.Confirmed || len(e.Stopped) != n || len(e.Left) > 0 {
			t.Errorf("%d ended, %d are unconfirmed", len(e.Stopped), len(e.Unconfirmed))
			for _, u := range e.Unconfirmed[:min(len(e.Unconfirmed), 3)] {
				t.Errorf("%s: %+v, %+v", u.Name, u.Report, u.Error)
			}
		}
		if status := c.Cmd.ProcessState.ExitCode(); status != 0 {
			t.Errorf("the server ends with status %d", status)
		}
		if left := peer.Processes("sleep", "4830"); left > 0 {
			t.Errorf("%d are left", left)
		}
	})
}

// startMany starts jobs, as many at a time as a manager takes with profit.
func (c *client) startMany(n int, argv ...string) {
	c.t.Helper()
	const width = 16
	var ids []string
	for i := range n + width {
		if i < n {
			ids = append(ids, c.ask("job.start", c.job(map[string]any{"output": map[string]any{"mode": "null"}}, argv...)))
		}
		if i >= width {
			c.answer(ids[i-width]).into(c.t, nil)
		}
	}
}
