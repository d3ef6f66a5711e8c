package serve_test

import (
	"slices"
	"testing"
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
