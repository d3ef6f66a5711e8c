package serve_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
)

// session is a server for one case, with a directory that every job can write
// to.
type session struct {
	*client
	dir string
}

// again is another server for the same jobs.
func (s *session) again() *session {
	return &session{dial(s.t, s.rung, options{state: s.state}), s.dir}
}

// The cases that users of such tools report, over the protocol, in each
// isolation; each has a server of its own.
func TestCases(t *testing.T) {
	cases := []struct {
		title string
		test  func(*session)
	}{
		1:  {"a timeout ends the whole pipeline", timeoutOfPipeline},
		2:  {"a timeout ends what runs in the background", timeoutOfBackground},
		3:  {"TERM and the grace come first", graceComesFirst},
		4:  {"what ignores TERM is killed and that is said", killIsSaid},
		5:  {"a daemon is handled by policy", daemonByPolicy},
		6:  {"double forks, nohup, disown and job control are members", allAreMembers},
		7:  {"a stop in a fork storm", stopInStorm},
		8:  {"stopped and paused jobs end", pausedEnd},
		9:  {"the main process is killed", mainIsKilled},
		10: {"a member of another user", memberOfAnother},
		11: {"exit is told while a leftover holds the output", heldOutput},
		12: {"exit is told while a leftover writes", writingLeftover},
		13: {"no input hangs", noInput},
		14: {"a settled job answers at once, an unknown name fails", waitsAnswer},
		15: {"a stop leaves nothing for later", nothingLater},
		16: {"what ignores TERM is no success", noSuccess},
		17: {"a key starts one job", keyStartsOne},
		18: {"the server is killed", serverIsKilled},
		19: {"the owner ends", ownerEnds},
		20: {"a detached job outlives its server", detachedOutlives},
		21: {"a job that kills around itself", killsAround},
		22: {"output goes on without a server", outputGoesOn},
		23: {"a cap holds without a server", capHolds},
		24: {"much output costs no memory", muchOutput},
		25: {"a follower is killed", followerIsKilled},
		26: {"SIGPIPE is not ignored", sigpipe},
		27: {"codes pass through", codesPass},
		28: {"a death by a signal is no code", signalsAreNoCodes},
		29: {"the job decides what a signal means", jobDecides},
		30: {"no code is lost of many", manyCodes},
		44: {"what is too big to be executed is refused", tooBig},
	}
	in(t, func(t *testing.T, rung string) {
		for n, c := range cases {
			if c.test == nil {
				continue
			}
			t.Run(fmt.Sprintf("%02d %s", n, c.title), func(t *testing.T) {
				state := stateDir(t)
				t.Cleanup(func() { sweep(t, state) })
				dir := t.TempDir()
				if err := os.Chmod(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				c.test(&session{dial(t, rung, options{state: state}), dir})
			})
		}
	})
}

// sh runs a script; $T in it is the session's directory.
func (s *session) sh(more map[string]any, script string) serve.RunResult {
	s.t.Helper()
	return s.run(more, "bash", "-c", s.script(script))
}

func (s *session) script(script string) string { return strings.ReplaceAll(script, "$T", s.dir) }

func (s *session) exists(file string) bool {
	_, err := os.Stat(filepath.Join(s.dir, file))
	return err == nil
}

// appears waits for a file.
func (s *session) appears(file string) {
	s.t.Helper()
	if !eventually(func() bool { return s.exists(file) }) {
		s.t.Fatalf("%s does not appear", file)
	}
}

// none wants no process sleep NUMBER to be left; every case has numbers of its
// own.
func (s *session) none(numbers ...string) {
	s.t.Helper()
	for _, n := range numbers {
		if left := processes("sleep", n); left != 0 {
			s.t.Errorf("%d processes sleep %s are left", left, n)
		}
	}
}

// some waits until there is one.
func (s *session) some(number string) {
	s.t.Helper()
	if !eventually(func() bool { return processes("sleep", number) > 0 }) {
		s.t.Fatalf("no process sleep %s", number)
	}
}

// ends wants the end of a job, by proof, for a reason, with a code or signal.
func (s *session) ends(rep unit.Report, why string, how any) {
	s.t.Helper()
	ok := rep.Confirmed && rep.Tree.Empty && rep.State == unit.StateSettled && reason(rep) == why
	switch how := how.(type) {
	case int:
		ok = ok && code(rep) == how
	case string:
		ok = ok && signalOf(rep) == how
	}
	if !ok {
		s.t.Errorf("want %s, %v: %+v", why, how, rep)
	}
}

// stepped wants the signals of a stop; the last sufficed, and no other.
func (s *session) stepped(rep unit.Report, by string, actions ...string) {
	s.t.Helper()
	var got []string
	for i, step := range rep.Stop.Steps {
		got = append(got, step.Action)
		if step.Sufficed != (i == len(rep.Stop.Steps)-1) {
			s.t.Errorf("step %d: %+v", i, rep.Stop.Steps)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(actions) || rep.Stop.By == nil || *rep.Stop.By != by {
		s.t.Errorf("want %v by %s: %+v", actions, by, rep.Stop)
	}
}

func (s *session) stop(name string, grace int) unit.Report {
	s.t.Helper()
	var r serve.StopResult
	s.call("job.stop", map[string]any{"name": name, "grace_ms": grace}, &r)
	return r.Report
}

func (s *session) status(name string) serve.JobResult {
	s.t.Helper()
	var r serve.JobResult
	s.call("job.status", map[string]any{"name": name}, &r)
	return r
}

func (s *session) wait(name, fact string) serve.WaitResult {
	s.t.Helper()
	var r serve.WaitResult
	s.call("job.wait", map[string]any{"name": name, "for": fact, "timeout_ms": patience.Milliseconds()}, &r)
	if !r.Reached {
		s.t.Fatalf("%s: %s is not reached: %+v", name, fact, r)
	}
	return r
}

func signalOf(rep unit.Report) string {
	if rep.Exit.Signal == nil {
		return ""
	}
	return *rep.Exit.Signal
}
