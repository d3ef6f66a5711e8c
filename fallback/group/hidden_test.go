package group

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/verify"
)

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
