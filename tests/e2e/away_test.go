package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// The user's manager dies and does not come back: a run ends, in a bounded
// time or at the next signal, and says what it does not know.
func TestDisturbedManagerNeverComesBack(t *testing.T) {
	needRootToKillManager(t)
	w := asTester(t, testerDir(t))
	t.Cleanup(func() { userManagerUp(t) })
	report := filepath.Join(filepath.Dir(w.state), "report")
	patient := w.begin(w.cmd("run", "--report", report, "-u", "widow", "--", "sleep", "1064"))
	patient.report = report
	hurried := w.begin(w.cmd("run", "-u", "widow-term", "--", "sleep", "1065"))
	interrupted := w.begin(w.cmd("run", "-u", "widow-int", "--", "sleep", "1066"))
	for i, name := range []string{"widow", "widow-term", "widow-int"} {
		alive(t, "sleep", strconv.Itoa(1064+i))
		if !eventually(func() bool { return w.report("status", name).get("state") == "running" }) {
			t.Fatal("its start is not recorded")
		}
	}
	killUserManager(t)
	for _, mark := range []string{"1064", "1065", "1066"} {
		gone(t, patience, "sleep", mark)
	}
	// It may take a moment until they see it too: the signal is for the wait.
	ends := func(f *foreground, sig syscall.Signal) {
		t.Helper()
		if !eventually(func() bool {
			f.cmd.Process.Signal(sig)
			time.Sleep(50 * time.Millisecond)
			return f.over()
		}) {
			t.Fatalf("%v does not heed signal %d", f.cmd.Args, sig)
		}
		f.wantStatus(123)
	}
	began := time.Now()
	ends(hurried, syscall.SIGTERM)
	ends(interrupted, syscall.SIGINT)
	if took := time.Since(began); took > 9*time.Second {
		t.Errorf("the signals took %v: that is no sooner than without", took)
	}
	patient.wantStatus(123)
	readReport(t, patient.report).has("confirmed=false", "exit.known=false", "tree.empty=true")
	// So do those who ask later.
	w.want(123, "wait", "widow")
	w.want(123, "stop", "widow")
	w.want(123, "verify", "widow")
}

// A manager that does not answer holds nobody up who only looks, and keeps nobody
// from ending a scope.
func TestDisturbedManagerSilent(t *testing.T) {
	needRootToKillManager(t)
	w := asTester(t, testerDir(t))
	for i := range 8 {
		w.want(0, "start", "-u", "silent-"+strconv.Itoa(i), "--", "sleep", "1067")
	}
	scoped := *w
	scoped.isolation = verify.IsolationScope
	scoped.want(0, "start", "-u", "mute-scope", "--", "sh", "-c", "setsid sleep 1075 & exec sleep 1076")
	alive(t, "sleep", "1075")
	alive(t, "sleep", "1076")
	pid := userManagerPID(t, 1000)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awake := false
	wake := func() {
		if !awake {
			awake = true
			syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	t.Cleanup(wake)
	const within = 20 * time.Second // less than a call on the bus would wait
	for _, args := range [][]string{{"verify", "silent-0"}, {"status", "silent-0"}, {"list"}} {
		began := time.Now()
		a := w.do(args...)
		if took := time.Since(began); took > within {
			t.Errorf("it took %v: %s", took, a)
		} else {
			t.Logf("%v took %v", args, took)
		}
		if args[0] == "list" && strings.Count(a.out, "silent-") != 8 {
			t.Errorf("jobs are missing in %s", a)
		}
		if args[0] == "verify" && a.code != 123 {
			t.Errorf("want status 123 of %s", a)
		}
	}
	w.report("stop", "--grace", "5s", "mute-scope").has("state=settled", "confirmed=true", "exit.signal=TERM", "tree.empty=true",
		"stop.steps.0.detail=to each member of the cgroup, without the manager")
	gone(t, 0, "sleep", "1075")
	gone(t, 0, "sleep", "1076")
	wake()
	w.report("status", "silent-0").has("state=running")
	for i := range 8 {
		w.want(0, "stop", "--grace", "0s", "silent-"+strconv.Itoa(i))
	}
}

// A signal is forwarded to the job that was started, never to another unit of
// its name.
func TestDisturbedForward(t *testing.T) {
	needRig(t)
	if os.Geteuid() == 0 {
		t.Skip("the system's bus serves all the rest of the machine too; the user's has the same code paths")
	}
	w := newWard(t)
	broker(t)
	f := w.run("-u", "namesake", "--", "sleep", "1068")
	alive(t, "sleep", "1068")
	if !eventually(func() bool { return w.report("status", "namesake").get("state") == "running" }) {
		t.Fatal("its start is not recorded")
	}
	// Stopped, it sees nothing of what follows. Its reference is lost with the
	// bus, and the unit's guard, which holds it too, is ended: its name is free.
	f.signal(syscall.SIGSTOP)
	t.Cleanup(func() { settleDown(t) })
	shell(t, "systemctl", "--user", "restart", broker(t))
	settleDown(t)
	stopUnit(t, strings.TrimSpace(shell(t, "systemctl", "--user", "show", "-p", "BindsTo", "--value", "namesake.service")))
	if left := ""; !eventually(func() bool { left = loadedUnits("namesake.service"); return left == "" }) {
		t.Fatalf("its name is not free: %s", left)
	}
	shell(t, "systemd-run", "--user", "--unit", "namesake", "/bin/sleep", "1069")
	t.Cleanup(func() { stopUnit(t, "namesake.service") })
	other := alive(t, "/bin/sleep", "1069")
	f.signal(syscall.SIGTERM)
	f.signal(syscall.SIGCONT)
	if code := f.status(); code != 123 && code != 143 {
		t.Errorf("status %d: %s", code, f.said())
	}
	if now := alive(t, "/bin/sleep", "1069"); now != other {
		t.Errorf("another unit's process %d is now %d", other, now)
	}
}

func stopUnit(t testing.TB, name string) {
	t.Helper()
	shell(t, "systemctl", manager(), "stop", name)
}
