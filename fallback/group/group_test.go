package group

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
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

// A number of a living group is given to nobody, and one that was given away
// is never signalled.
func TestReusedNumber(t *testing.T) {
	asRoot(t)
	var said []string
	ask(t, nil, unix.CLONE_NEWPID|unix.CLONE_NEWNS, &said, "reuse")
	for _, s := range said {
		t.Error(s)
	}
}

// reuse is the first process of a pid namespace: it makes a group, ends it and
// has its number given to another.
func reuse() error {
	if err := mountProc(""); err != nil {
		return err
	}
	said := []string{}
	j, err := launch(nil, "member")
	if err != nil {
		return err
	}
	pid := j.id.PID
	// While a member lives, the number of the dead leader stays taken.
	if err := j.cmd.Process.Kill(); err != nil {
		return err
	}
	j.cmd.Wait()
	for range 20 {
		other, err := launchAt(pid)
		if err != nil {
			return err
		}
		if other.id.PID == pid {
			said = append(said, "the number of a living group was given away")
		}
		other.kill()
	}
	if err := j.Check(); err != nil {
		said = append(said, "without its leader: "+err.Error())
	}
	unix.Kill(j.pids["member"], unix.SIGKILL)
	unix.Wait4(j.pids["member"], nil, 0, nil) // it came back to us, the namespace's init

	var other *job
	for tries := 1; ; tries++ { // until it has the number, in another tick of the clock
		if tries == 1000 {
			return errors.New("the number was never given out again")
		}
		if other, err = launchAt(pid); err != nil {
			return err
		}
		if other.id.PID == pid && other.id.StartTime != j.id.StartTime {
			break
		}
		other.kill()
	}
	if err := j.Signal(unix.SIGKILL); !isMismatch(err, "start time") {
		said = append(said, "signal to a reused number: "+errorText(err))
	}
	if l := j.Look(); l.State != verify.GroupGone || l.Members != nil {
		b, _ := json.Marshal(l)
		said = append(said, "a look at a reused number: "+string(b))
	}
	if err := other.Check(); err != nil {
		said = append(said, "the other one: "+err.Error())
	}
	if s, err := proc.Root.Stat(pid); err != nil || s.Ended() {
		said = append(said, "the other one was signalled")
	}
	other.kill()
	return json.NewEncoder(os.Stdout).Encode(said)
}

func errorText(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// launchAt makes pid the next number to be given out, as far as it is free.
func launchAt(pid int) (*job, error) {
	const file = "/proc/sys/kernel/ns_last_pid"
	if err := os.WriteFile(file, []byte(itoa(pid-1)), 0); err != nil {
		return nil, err
	}
	return launch(nil)
}

func (j *job) kill() {
	j.cmd.Process.Kill()
	j.cmd.Wait()
	j.hold.Close()
	j.say.Close()
}

// A place where processes can be hidden is never looked through to the end,
// and what hides there is not gone.
func TestHiddenProcesses(t *testing.T) {
	asRoot(t)
	for _, option := range []string{"hidepid=1", "hidepid=2", "hidepid=0"} {
		var h hiddenLooks
		ask(t, nil, unix.CLONE_NEWPID|unix.CLONE_NEWNS, &h, "hidden", option)
		hides := option != "hidepid=0"
		if s := h.Scan; (s.State == verify.ScanIncomplete) != hides || strings.Contains(s.Err, "hidepid") != hides || len(s.Members) != 1 {
			t.Errorf("%s: %+v", option, s)
		}
		if l := h.Foreign; l.State != verify.GroupForeign || (len(l.Members) == 0) != hides {
			t.Errorf("%s: as another user %+v", option, l)
		}
		if s := h.ForeignScan; (s.State == verify.ScanIncomplete) != hides || hides && s.Unreadable != nil {
			t.Errorf("%s: as another user %+v", option, s)
		}
		if want := "operation not permitted"; hides {
			if want = "the members is not to be seen"; !strings.Contains(h.Signalled, want) {
				t.Errorf("%s: a signal said %q", option, h.Signalled)
			}
		} else if !strings.Contains(h.Signalled, want) {
			t.Errorf("%s: a signal said %q", option, h.Signalled)
		}
	}
}

// hiddenLooks are a group without its leader and a process that left it, as
// root sees them and as another user does.
type hiddenLooks struct {
	Scan, ForeignScan verify.Scan
	Foreign           verify.Group
	Signalled         string
}

// hidden is the first process of a pid namespace whose /proc hides.
func hidden(option string) error {
	option = strings.Trim(option, `"`)
	if err := mountProc(option); err != nil {
		return err
	}
	j, err := launch(nil, "member", "session")
	if err != nil {
		return err
	}
	if err := j.cmd.Process.Kill(); err != nil {
		return err
	}
	j.cmd.Wait()
	var h hiddenLooks
	h.Scan = j.Scan(jobName, patient())
	h.Scan.Members = slices.DeleteFunc(h.Scan.Members, func(m verify.Member) bool { return m.PID != j.pids["session"] })
	id, err := json.Marshal(j.Identity())
	if err != nil {
		return err
	}
	for what, into := range map[string]any{"look": &h.Foreign, "scan": &h.ForeignScan, "signal": &h.Signalled} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Dir, cmd.Stderr = "/", os.Stderr
		cmd.Env = []string{helperVariable + "=" + what + " " + string(id)}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: asNobody()}
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(h)
}

// mountProc makes /proc that of this pid namespace.
func mountProc(option string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, option)
}

// A record of another pid namespace is none of here, and a /proc of another
// one shows nothing of here.
func TestOtherNamespace(t *testing.T) {
	asRoot(t)
	j := start(t, nil)
	var said []string
	ask(t, nil, unix.CLONE_NEWPID|unix.CLONE_NEWNS, &said, "namespaced", j.Identity())
	for _, s := range said {
		t.Error(s)
	}
	if err := j.Check(); err != nil {
		t.Error(err)
	}
}

func namespaced(arg string) error {
	var id Identity
	if err := json.Unmarshal([]byte(arg), &id); err != nil {
		return err
	}
	said := []string{}
	g := Recorded(id, "aa")
	if err := g.Signal(unix.SIGKILL); !errors.Is(err, proc.ErrOtherNamespace) {
		said = append(said, "with the /proc of another: "+errorText(err))
	}
	if s := g.Scan(jobName, patient()); s.State != verify.ScanIncomplete || s.Members != nil {
		said = append(said, "a scan of the /proc of another: "+s.Err)
	}
	if err := mountProc(""); err != nil {
		return err
	}
	// The rig's boot id lies over a file of the /proc that was there before.
	boot, err := proc.Root.BootID()
	if err != nil {
		return err
	}
	id.BootID = boot
	if err := Recorded(id, "aa").Signal(unix.SIGKILL); !isMismatch(err, "pid namespace") {
		said = append(said, "in another: "+errorText(err))
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

// As root, all of this is gone through as an ordinary user too.
func TestAsNobody(t *testing.T) {
	asRoot(t)
	cmd := exec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.run=Test(TakeAndCheck|Mismatch|Look|Signal|LeaderlessStranger|ZombieLeader|Scan|Unreadable|Headless)")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: asNobody()}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("as uid %d: %v\n%s", nobody, err, out)
	}
}
