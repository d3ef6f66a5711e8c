package launch

import (
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

func TestManagerSteps(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct {
		signal, ended int
		want          []string
	}{
		{15, 15, []string{"TERM"}}, {2, 2, []string{"INT"}}, {9, 9, []string{"KILL"}}, {15, 9, []string{"TERM", "KILL"}},
	} {
		steps := managerSteps(c.signal, 3*time.Second, verify.Exit{Known: true, Signal: c.ended, At: at})
		var got []string
		for _, s := range steps {
			got = append(got, s.Action)
		}
		if len(got) != len(c.want) || got[0] != c.want[0] || !steps[len(steps)-1].At.Equal(at) {
			t.Errorf("signal %d, ended by %d: %v, want %v", c.signal, c.ended, steps, c.want)
		}
		if len(steps) == 2 && (steps[1].Action != "KILL" || steps[1].At.Sub(steps[0].At) != 3*time.Second) {
			t.Errorf("signal %d, ended by %d: %v", c.signal, c.ended, steps)
		}
	}
}
