package group

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

func pidsOf(ms []verify.Member) []int {
	var out []int
	for _, m := range ms {
		out = append(out, m.PID)
	}
	slices.Sort(out)
	return out
}

func isMismatch(err error, field string) bool {
	var m *MismatchError
	return errors.As(err, &m) && m.Field == field
}

func TestTakeAndCheck(t *testing.T) {
	j := start(t, nil, "member")
	id, pid := j.Identity(), j.cmd.Process.Pid
	if id.PID != pid || id.PGID != pid || id.Session != pid || id.StartTime == 0 || id.BootID == "" || id.Host != "aa" || id.UID != os.Geteuid() || id.PIDNamespace == 0 {
		t.Errorf("taken: %+v", id)
	}
	if err := j.Check(); err != nil {
		t.Error(err)
	}
	b, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	var back Identity
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(id, back) {
		t.Errorf("%s became %+v, %v", b, back, err)
	}

	var refused *RefusedError
	if _, err := Take(j.pids["member"], "aa"); !errors.As(err, &refused) {
		t.Errorf("a process that leads nothing: %v", err)
	}
	if _, err := Take(os.Getpid(), "aa"); !errors.As(err, &refused) {
		t.Errorf("the caller: %v", err)
	}
	j.end(t)
	if err := j.Check(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("ended: %v", err)
	}
	if err := j.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal to what has ended: %v", err)
	}
	if _, err := Take(pid, "aa"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("taken after its end: %v", err)
	}
}

// What is recorded for another place, or for no group of a job's, is neither
// looked at nor signalled.
func TestMismatch(t *testing.T) {
	j := start(t, nil)
	for field, change := range map[string]func(*Identity){
		"host":          func(id *Identity) { id.Host = "bb" },
		"boot id":       func(id *Identity) { id.BootID = "bb" },
		"uid":           func(id *Identity) { id.UID++ },
		"pid namespace": func(id *Identity) { id.PIDNamespace++ },
		"start time":    func(id *Identity) { id.StartTime-- },
	} {
		id := j.Identity()
		change(&id)
		g := Recorded(id, "aa")
		err := g.Signal(unix.SIGKILL)
		if !isMismatch(err, field) || !isMismatch(g.Check(), field) || !strings.Contains(err.Error(), "the "+field+" is ") {
			t.Errorf("%s: %v", field, err)
		}
		want := verify.GroupUnavailable
		if field == "start time" {
			want = verify.GroupGone // the number is another's
		}
		if l := g.Look(); l.State != want || (l.Err == "") != (want == verify.GroupGone) || l.PGID != id.PGID || l.Members != nil {
			t.Errorf("%s: %+v", field, l)
		}
		if s := g.Scan(jobName, patient()); field != "start time" && (s.State != verify.ScanIncomplete || s.Err == "" || s.Members != nil) {
			t.Errorf("%s: %+v", field, s)
		}
	}
	own, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{-1, 0, 1, unix.Getpgrp(), own} {
		id := j.Identity()
		id.PID, id.PGID, id.Session = n, n, n
		var refused *RefusedError
		if err := Recorded(id, "aa").Signal(unix.SIGKILL); !errors.As(err, &refused) || refused.PGID != n {
			t.Errorf("group %d: %v", n, err)
		}
		if l := Recorded(id, "aa").Look(); l.State != verify.GroupUnavailable || l.Err == "" {
			t.Errorf("group %d: %+v", n, l)
		}
	}
	if err := j.Check(); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestLook(t *testing.T) {
	j := start(t, nil, "member", "grouped", "session")
	want := []int{j.cmd.Process.Pid, j.pids["member"], j.pids["grouped"]}
	slices.Sort(want)
	l := j.Look()
	if l.State != verify.GroupPopulated || l.PGID != j.id.PGID || !slices.Equal(pidsOf(l.Members), want) || l.Members[0].Command == "" {
		t.Errorf("all of them: %+v, want %v", l, want)
	}
	// The group outlives its leader, and is still ours.
	j.leave(t)
	if l := j.Look(); l.State != verify.GroupPopulated || len(l.Members) != 2 {
		t.Errorf("without its leader: %+v", l)
	}
	if err := unix.Kill(j.pids["member"], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// The session outlives the group.
	waitFor(t, "the member", func() bool { j.reap(); return errors.Is(unix.Kill(-j.id.PGID, 0), unix.ESRCH) })
	if l := j.Look(); l.State != verify.GroupPopulated || !slices.Equal(pidsOf(l.Members), []int{j.pids["grouped"]}) {
		t.Errorf("with its session alone: %+v", l)
	}
	if err := j.Signal(unix.SIGKILL); err != nil {
		t.Errorf("a signal to its session: %v", err)
	}
	waitFor(t, "the session", j.gone)
	if l := j.Look(); l.Members != nil || l.Err != "" {
		t.Errorf("gone: %+v", l)
	}
	if s := j.Scan(jobName, patient()); !slices.Contains(pidsOf(s.Members), j.pids["session"]) {
		t.Errorf("and one with its own session: %+v", s)
	}
}

func TestSignal(t *testing.T) {
	j := start(t, nil, "member", "grouped", "session")
	if err := j.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	j.cmd.Wait()
	waitFor(t, "the group and its session", j.gone)
	if s, err := j.dir.Stat(j.pids["session"]); err != nil || s.Ended() {
		t.Errorf("a process that is not to be reached: %+v, %v", s, err)
	}
}

// A process without a leader that is not of our session, or older than the
// job, is not ours.
func TestLeaderlessStranger(t *testing.T) {
	j := start(t, nil, "member", "grouped")
	grouped := j.pids["grouped"]
	// The job-control group of another session, as if it had been recorded.
	id := j.Identity()
	id.PID, id.PGID, id.Session = grouped, grouped, grouped
	s, err := j.dir.Stat(grouped)
	if err != nil {
		t.Fatal(err)
	}
	id.StartTime = s.StartTime
	g := Recorded(id, "aa")
	if err := g.Signal(unix.SIGKILL); !isMismatch(err, "session") {
		t.Errorf("another session, with its leader: %v", err)
	}
	j.leave(t)
	// Members that are older than the record.
	id = j.Identity()
	id.StartTime += 1 << 40
	g = Recorded(id, "aa")
	if err := g.Signal(unix.SIGKILL); !isMismatch(err, "start time") {
		t.Errorf("older members: %v", err)
	}
	if l := g.Look(); l.State != verify.GroupGone || l.Members != nil {
		t.Errorf("older members: %+v", l)
	}
	if l := j.Look(); l.State != verify.GroupPopulated || len(l.Members) != 2 {
		t.Errorf("they got it: %+v", l)
	}
}

// A leader that was not reaped is there for signal 0, and is called a zombie.
func TestZombieLeader(t *testing.T) {
	j := start(t, nil)
	if err := j.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the zombie", func() bool {
		s, err := j.dir.Stat(j.id.PID)
		return err == nil && s.Ended()
	})
	if l := j.Look(); l.State != verify.GroupPopulated || len(l.Members) != 1 || l.Members[0].State != "Z" {
		t.Errorf("a zombie leader: %+v", l)
	}
	if err := j.Check(); err != nil {
		t.Errorf("a zombie leader: %v", err)
	}
	if s := j.Scan(jobName, patient()); slices.Contains(pidsOf(s.Members), j.id.PID) {
		t.Errorf("a zombie is found: %+v", s)
	}
	j.cmd.Wait()
	if l := j.Look(); l.State != verify.GroupGone {
		t.Errorf("reaped: %+v", l)
	}
}

// Members of another user: EPERM is not gone.
func TestForeignMembers(t *testing.T) {
	asRoot(t)
	j := start(t, nil, "member", "grouped")
	var l verify.Group
	ask(t, asNobody(), 0, &l, "look", j.Identity())
	if l.State != verify.GroupForeign || len(l.Members) != 3 {
		t.Errorf("as another user: %+v", l)
	}
	var said string
	ask(t, asNobody(), 0, &said, "signal", j.Identity())
	if !strings.Contains(said, "operation not permitted") {
		t.Errorf("a signal as another user: %q", said)
	}
	if l := j.Look(); l.State != verify.GroupPopulated || len(l.Members) != 3 {
		t.Errorf("they got it: %+v", l)
	}
	v := verify.Judge(verify.Observation{
		Name: jobName, Isolation: verify.IsolationGroup, Nonce: "n", Identity: verify.Identity{State: verify.IdentitySame},
		Kept: &verify.Kept{Nonce: "n", Exited: true}, KeeperGone: true, AcceptWeak: true, Group: l,
	})
	if m := v.Missing; len(m) != 1 || !strings.HasPrefix(m[0].Looked+" "+m[0].Said, "signal 0 to group ") || !strings.Contains(m[0].Said, "returned EPERM") {
		t.Errorf("missing is %q", m)
	}
}
