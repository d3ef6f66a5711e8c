package serve_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/verify"
)

// Cases 1 to 17: a stop reaches everything, and four facts.

func timeoutOfPipeline(s *session) {
	r := s.sh(map[string]any{"timeout_ms": 300}, "sleep 472001 | cat; true")
	s.ends(r.Report, "timeout", nil)
	s.stepped(r.Report, "timeout", "TERM")
	s.none("472001")
}

func timeoutOfBackground(s *session) {
	s.ends(s.sh(map[string]any{"timeout_ms": 300}, "sleep 4720021 & sleep 4720022 & wait").Report, "timeout", nil)
	s.none("4720021", "4720022")
}

func graceComesFirst(s *session) {
	r := s.sh(map[string]any{"timeout_ms": 3000, "grace_ms": 20000}, `trap "rm -f $T/lock" EXIT; trap "rm -f $T/lock; exit 3" TERM; touch $T/lock $T/up; while :; do sleep .05; done`)
	s.ends(r.Report, "timeout", 3)
	s.stepped(r.Report, "timeout", "TERM")
	if !s.exists("up") || s.exists("lock") {
		s.t.Error("the job could not clean up")
	}
}

func killIsSaid(s *session) {
	r := s.sh(map[string]any{"grace_ms": 300}, `timeout 20 sh -c '(trap "" TERM; touch $T/ready; exec sleep 472004) & until test -e $T/ready; do sleep .01; done; exit 0'`)
	s.ends(r.Report, "completed", 0)
	s.stepped(r.Report, "leftovers", "TERM", "KILL")
	s.none("472004")
}

func daemonByPolicy(s *session) {
	const daemon = "setsid sleep 472005 >/dev/null 2>&1 & exit 0"
	s.ends(s.sh(nil, daemon).Report, "completed", 0)
	s.none("472005")
	s.ends(s.sh(map[string]any{"leftovers": "wait"}, `setsid sh -c "sleep .3; touch $T/late" >/dev/null 2>&1 & exit 0`).Report, "completed", 0)
	if !s.exists("late") {
		s.t.Error("wait did not wait")
	}
	r := s.sh(map[string]any{"leftovers": "keep"}, "setsid sleep 472005 >/dev/null 2>&1 & until grep -q sleep /proc/$!/comm; do :; done")
	s.kept(r, "sleep 472005")
	s.ends(s.stop(r.Name, 1000), "completed", 0)
	s.none("472005")
}

// kept wants the answer to a run of which something stays by request: a member
// whose command line begins so, once it has one.
func (s *session) kept(r serve.RunResult, what string) {
	s.t.Helper()
	rep := r.Report
	if len(rep.Tree.Members) == 0 || code(rep) != 0 || rep.Confirmed || rep.State != unit.StateEnded || r.Facts.Tree || r.Facts.Settled || !r.Facts.Exit {
		s.t.Errorf("kept: %+v, %+v", r.Facts, rep)
	}
	if !eventually(func() bool {
		rep = s.status(r.Name).Report
		return slices.ContainsFunc(rep.Tree.Members, func(m verify.Member) bool { return strings.HasPrefix(m.Command, what) })
	}) {
		s.t.Errorf("no member %s: %+v", what, rep.Tree)
	}
}

func allAreMembers(s *session) {
	for _, script := range []string{
		`(setsid bash -c "sleep 472006 & disown" &); exit 0`,
		"nohup sleep 472006 >/dev/null 2>&1 & disown; exit 0",
		`bash -mc "sleep 472006 & disown; exec true"`,
	} {
		r := s.sh(map[string]any{"leftovers": "keep"}, script)
		s.kept(r, "sleep 472006")
		s.ends(s.stop(r.Name, 1000), "completed", 0)
		s.none("472006")
		s.ends(s.sh(nil, script).Report, "completed", 0)
		s.none("472006")
	}
}

func stopInStorm(s *session) {
	name := s.start(nil, "bash", "-c", "while :; do (sleep .01; setsid sleep 472007) & sleep .002; done")
	s.some("472007")
	s.ends(s.stop(name, 1000), "cancelled", nil)
	s.none("472007")
}

func pausedEnd(s *session) {
	name := s.start(nil, "sh", "-c", "kill -STOP $$; exec sleep 472008")
	if !eventually(func() bool { return s.mainState(name) == "T" }) {
		s.t.Fatalf("it does not stop itself: %+v", s.status(name).Report)
	}
	s.ends(s.stop(name, 20_000), "cancelled", "TERM")
	name = s.start(nil, "sleep", "472008")
	s.call("job.pause", map[string]any{"name": name}, nil)
	if rep := s.status(name).Report; !rep.Paused {
		s.t.Errorf("it is not paused: %+v", rep)
	}
	s.ends(s.stop(name, 20_000), "cancelled", "TERM")
	s.none("472008")
}

// mainState is the state of a job's main process; empty once that has ended.
func (s *session) mainState(name string) string {
	s.t.Helper()
	m, _ := proc.Describe(int(s.status(name).Report.PID))
	return m.State
}

func mainIsKilled(s *session) {
	name := s.start(nil, "sh", "-c", "sleep 472009 & kill -9 $$")
	s.ends(s.settled(name), "signaled", "KILL")
	s.none("472009")
	name = s.start(map[string]any{"leftovers": "wait"}, "sh", "-c", s.script(`(sleep .3; touch $T/late) & kill -9 $$`))
	s.ends(s.settled(name), "signaled", "KILL")
	if !s.exists("late") {
		s.t.Error("wait did not wait")
	}
}

// memberOfAnother has a job of root a process of somebody else, and in the
// isolation that cannot end it a job of somebody else a process of root; for the
// other isolations that is TestRootInUsersJob of tests/e2e.
func memberOfAnother(s *session) {
	if os.Geteuid() != 0 {
		s.t.Skip("user: only root can make a process of another user, or a set-user-ID program")
	}
	if s.rung == verify.IsolationGroup {
		rootInUsersGroup(s)
	}
	name := s.start(nil, "sh", "-c", `setpriv --reuid 65534 --regid 65534 --clear-groups sh -c 'trap "" TERM; exec sleep 472010' & wait`)
	s.some("472010")
	rep := s.stop(name, 300)
	s.ends(rep, "cancelled", nil)
	s.stepped(rep, "stop", "TERM", "KILL")
	s.none("472010")
}

// rootInUsersGroup has a server of the user nobody a job that a process of root
// is in.
func rootInUsersGroup(s *session) {
	const nobody = 65534
	dir, err := os.MkdirTemp("/home", "unitward-") // /tmp may heed no set-user-ID bit
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { os.RemoveAll(dir) })
	program, become := filepath.Join(dir, "server"), filepath.Join(dir, "become")
	for _, argv := range [][]string{
		{"chmod", "755", dir},
		{"cp", os.Args[0], program}, // where it is not everybody may be able to go
		{"sh", "-c", `cp "$(command -v setpriv)" "$1"`, "sh", become},
		{"chmod", "4755", become},
		{"install", "-d", "-m", "700", "-o", fmt.Sprint(nobody), filepath.Join(dir, "state")},
	} {
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			s.t.Fatalf("%v: %v: %s", argv, err, out)
		}
	}
	user := &session{dial(s.t, s.rung, options{state: filepath.Join(dir, "state"), uid: nobody, program: program}), dir}
	name := user.start(nil, "sh", "-c", become+` --reuid 0 --regid 0 --clear-groups sh -c 'trap "" TERM; exec sleep 4720101' & wait`)
	user.some("4720101")
	rep := user.stop(name, 300)
	looked := fmt.Sprintf("signal 0 to group %d", rep.PID)
	if rep.Confirmed || rep.Tree.Empty || !slices.ContainsFunc(rep.Missing, func(m verify.Missing) bool {
		return m.Looked == looked && strings.HasPrefix(m.Said, "returned EPERM: ") && strings.Contains(m.Said, "(sleep 4720101, ")
	}) || rep.Remedy == nil || !strings.Contains(*rep.Remedy, "another user") {
		s.t.Errorf("%s did not return EPERM: %+v", looked, rep)
	}
	for _, m := range rep.Tree.Members {
		if err := syscall.Kill(m.PID, syscall.SIGKILL); err != nil {
			s.t.Error(err)
		}
	}
	user.ends(user.settled(name), "cancelled", "TERM")
	user.none("4720101")
}

func heldOutput(s *session) {
	r := s.sh(map[string]any{"leftovers": "keep"}, "sleep 472011 & until grep -q sleep /proc/$!/comm; do :; done; echo done")
	s.kept(r, "sleep 472011")
	if got := s.all(r.Name, "stdout"); got != "done\n" || r.Report.Streams.State != "held" || r.Facts.Streams {
		s.t.Errorf("%q, %+v", got, r.Report.Streams)
	}
	s.ends(s.stop(r.Name, 1000), "completed", 0)
	s.none("472011")
	// With the policy to wait exit is told at once, too.
	name := s.start(map[string]any{"leftovers": "wait"}, "sh", "-c", "sleep 472011 & exit 4")
	if w := s.wait(name, "exit"); w.Facts.Tree || w.Facts.Streams || code(w.Report) != 4 {
		s.t.Errorf("%+v", w)
	}
	s.ends(s.stop(name, 1000), "failed", 4)
}

func writingLeftover(s *session) {
	for writer, member := range map[string]string{"while :; do echo x; sleep .05; done": "bash -c echo started; (while", "exec yes": "yes"} {
		r := s.sh(map[string]any{"leftovers": "keep"}, "echo started; ("+writer+") &")
		s.kept(r, member)
		if r.Facts.Streams || r.Report.Streams.State != "held" {
			s.t.Errorf("%s: %+v, %+v", writer, r.Facts, r.Report.Streams)
		}
		if got := s.all(r.Name, "stdout"); !strings.Contains(got, "started\n") {
			s.t.Errorf("%s: %.100q", writer, got)
		}
		s.ends(s.stop(r.Name, 1000), "completed", 0)
	}
}

func noInput(s *session) {
	s.ends(s.run(nil, "cat").Report, "completed", 0)
	s.ends(s.sh(map[string]any{"timeout_ms": patience.Milliseconds()}, "cat $(true)").Report, "completed", 0)
}

func waitsAnswer(s *session) {
	name := s.sh(nil, "exit 6").Name
	for _, fact := range []string{"exit", "streams", "tree", "settled"} {
		if w := s.wait(name, fact); code(w.Report) != 6 || !w.Facts.Settled {
			s.t.Errorf("%s: %+v", fact, w)
		}
	}
	for _, method := range []string{"job.wait", "job.status", "job.stop", "job.output", "job.track"} {
		s.fails("not_found", method, map[string]any{"name": "nobody"})
	}
}

func nothingLater(s *session) {
	name := s.start(map[string]any{"leftovers": "wait"}, "sh", "-c", s.script(`setsid sh -c "touch $T/up; sleep 472015; touch $T/late" & exit 0`))
	s.appears("up")
	s.wait(name, "exit")
	s.ends(s.stop(name, 1000), "completed", 0)
	s.none("472015")
	if s.exists("late") {
		s.t.Error("it went on")
	}
	done := s.sh(nil, "exit 7").Name
	rep := s.stop(done, 1000)
	if s.ends(rep, "failed", 7); rep.Stop.RequestedAt != nil {
		s.t.Errorf("a job that had ended was stopped: %+v", rep.Stop)
	}
}

func noSuccess(s *session) {
	r := s.sh(map[string]any{"timeout_ms": 2000, "grace_ms": 300}, `trap "" TERM; sleep 472016; touch $T/f`)
	s.ends(r.Report, "timeout", "KILL")
	s.stepped(r.Report, "timeout", "TERM", "KILL")
	if s.exists("f") {
		s.t.Error("it went on")
	}
}

func keyStartsOne(s *session) {
	var a, b serve.StartResult
	s.call("job.start", s.job(map[string]any{"key": "build"}, "sleep", "472017"), &a)
	s.call("job.start", s.job(map[string]any{"key": "build"}, "sleep", "472017"), &b)
	if a.Name != b.Name || a.Joined || !b.Joined || processes("sleep", "472017") > 1 {
		s.t.Errorf("%+v, %+v", a, b)
	}
	s.ends(s.stop(a.Name, 1000), "cancelled", "TERM")
}

// process starts one of the test, for a job to belong to.
func (s *session) process(argv ...string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}
