package serve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// recordOf is a job's record on disk.
func recordOf(t testing.TB, state, name string) (rec unit.Record) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(state, "jobs", name, "job.json"))
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A server is the keeper of many jobs, and the parent of what stays with others. Who
// ends one whose reaper was killed, so that its processes are the server's own children
// by now, ends no other.
func TestLostReaperHarmsNoOtherJob(t *testing.T) {
	in(t, func(t *testing.T, rung string) {
		if rung == verify.IsolationService {
			return // it has no reaper of ours
		}
		others := map[string]map[string]any{
			"call": nil, "promotable": {"promotable": true}, "detached": {"lifetime": "detached"},
			"owner": {"lifetime": "owner", "owner_pid": os.Getpid()},
		}
		if os.Getenv("UNITWARD_RIG") != "" {
			others["service"] = map[string]any{
				"isolation": []string{verify.IsolationService}, "lifetime": "owner", "owner_pid": os.Getpid(),
			}
		}
		for _, who := range []string{"the server", "another"} {
			for what, more := range others {
				t.Run(who+" beside "+what, func(t *testing.T) { lostBeside(t, rung, who == "another", more) })
			}
		}
	})
}

// lostBeside stops a job whose reaper was killed, by its server or another one, beside
// a job with more of its own.
func lostBeside(t *testing.T, rung string, another bool, more map[string]any) {
	state := stateDir(t)
	t.Cleanup(func() { sweep(t, state) })
	c := dial(t, rung, options{state: state})
	other := c.start(more, "sh", "-c", "sleep 4741 & wait")
	eventually(func() bool { return processes("sleep", "4741") == 1 })
	name := c.start(map[string]any{"leftovers": "wait"}, "sh", "-c", "sleep 4742 & wait")
	reaper := recordOf(t, state, name).Reaper
	if err := syscall.Kill(reaper.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return syscall.Kill(reaper.PID, 0) != nil }) {
		t.Fatal("the reaper is there")
	}
	s := &session{c, ""}
	if another {
		s = s.again()
	}
	if rep := s.stop(name, 1000); !rep.Tree.Empty {
		t.Errorf("it is left: %+v", rep)
	}
	if st := s.status(other); st.Report.State != "running" || processes("sleep", "4741") != 1 {
		t.Errorf("the other: %+v", st.Report)
	}
	s = &session{c, ""}
	s.ends(s.stop(other, 1000), "cancelled", "TERM")
	s.none("4741", "4742")
}
