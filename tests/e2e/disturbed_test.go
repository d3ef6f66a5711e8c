package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// disturbance is what a manager or its bus goes through.
type disturbance struct {
	name string
	do   func(t testing.TB)
}

// disturbances are all of them.
var disturbances = []disturbance{
	{"daemon-reload", func(t testing.TB) { shell(t, "systemctl", manager(), "daemon-reload") }},
	{"daemon-reexec", func(t testing.TB) { shell(t, "systemctl", manager(), "daemon-reexec") }},
	{"broker restart", func(t testing.TB) { shell(t, "systemctl", manager(), "restart", broker(t)) }},
	{"broker killed", func(t testing.TB) { shell(t, "systemctl", manager(), "kill", "-s", "KILL", broker(t)) }},
}

// broker is the unit of the message bus, which runs once it was used.
func broker(t testing.TB) string {
	t.Helper()
	shell(t, "busctl", manager(), "--no-pager", "list")
	id := strings.TrimSpace(shell(t, "systemctl", manager(), "show", "-p", "Id", "--value", "dbus.service"))
	if id == "" {
		t.Fatal("no unit of the broker is loaded")
	}
	// Many restarts in a short time are no failure here.
	exec.Command("systemctl", manager(), "reset-failed", "dbus.socket", id).Run()
	return id
}

// settleDown waits until the manager and its bus answer again. A user's manager
// that lost the system's bus needs a reexec to connect to it again. And one that
// connects to its own bus while that is not there yet waits for itself, and answers
// nobody, for a minute and a half (systemd 247 and 252).
func settleDown(t testing.TB) {
	t.Helper()
	var out []byte
	tries := 0
	if !eventuallyWithin(2*time.Minute, func() bool {
		var err error
		out, err = exec.Command("busctl", manager(), "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "GetUnit", "s", "basic.target").CombinedOutput()
		if err != nil {
			exec.Command("systemctl", manager(), "reset-failed", "dbus.socket", "dbus.service").Run()
			exec.Command("systemctl", manager(), "start", "dbus.socket").Run()
			if tries++; os.Geteuid() != 0 && tries%100 == 0 {
				// One of systemd 247 does not always connect to its new bus.
				exec.Command("systemctl", "--user", "daemon-reexec").Run()
			}
		}
		return err == nil
	}) {
		t.Errorf("the manager does not come back: %s", out)
	}
	if os.Geteuid() == 0 {
		// logind (systemd 257) does not always come back to a new bus, and
		// without it no user's manager starts.
		exec.Command("systemctl", "reset-failed", "systemd-logind.service").Run()
		shell(t, "systemctl", "restart", "systemd-logind.service")
		shell(t, append(asUser(), "systemctl", "--user", "daemon-reexec")...)
	}
}

// Case 31: what has ended is known, in every isolation, whatever happens before
// anybody asks, and for how long nothing does.
func TestDisturbedAfterEnd(t *testing.T) {
	quiet := disturbance{"five seconds", func(testing.TB) { time.Sleep(5 * time.Second) }}
	isolations := all
	switch {
	case os.Getenv(inScope) != "":
		isolations = []string{verify.IsolationCgroup}
	case os.Geteuid() != 0: // TestDisturbedUserScope has a cgroup that is the user's
		isolations = []string{verify.IsolationService, verify.IsolationScope, verify.IsolationGroup}
	}
	for _, d := range append([]disturbance{quiet}, disturbances...) {
		t.Run(d.name, func(t *testing.T) {
			needRig(t)
			t.Cleanup(func() { settleDown(t) })
			var wards []*ward
			for _, isolation := range isolations {
				w := newWardIn(t, isolation)
				wards = append(wards, w)
				done := filepath.Join(t.TempDir(), "done")
				w.want(0, "start", "-u", "late-"+isolation, "--", "sh", "-c", "touch "+done+"; exit 7")
				exists(t, done)
			}
			// Nobody of unitward looks, which would seal the answer; keepers of
			// their own do, and are waited for: not every job has a unit to see.
			if left := ""; !eventually(func() bool { left = loadedUnits("late-*"); return left == "" }) {
				t.Fatalf("it does not end: %s", left)
			}
			for _, w := range wards {
				w.unattended("late-" + w.isolation)
			}
			d.do(t)
			for _, w := range wards {
				t.Run(w.isolation, func(t *testing.T) {
					late, name := *w, "late-"+w.isolation
					late.t = t
					late.report("status", name).has("state=settled", "confirmed=true", "reason=failed", "exit.code=7", "tree.empty=true", "isolation="+w.isolation)
					late.want(7, "wait", name)
				})
			}
		})
	}
}

// Case 31, and more: jobs that run across a disturbance while they are
// watched.
func TestDisturbedWhileRunning(t *testing.T) {
	for _, d := range disturbances {
		t.Run(d.name, func(t *testing.T) {
			w := newWard(t)
			t.Cleanup(func() { settleDown(t) })
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			leave := in("leave")
			called := w.run("-u", "disturbed-call", "--", "sh", "-c", until(in("up1"), leave, 9))
			w.want(0, "start", "-u", "disturbed-start", "--", "sh", "-c", until(in("up2"), leave, 10))
			signalled := w.run("-u", "disturbed-signal", "--", "sh", "-c", "trap 'exit 11' TERM; "+until(in("up3"), in("never"), 12))
			waiter := w.waiting("disturbed-start")
			for _, up := range []string{"up1", "up2", "up3"} {
				exists(t, in(up))
			}
			d.do(t)
			settleDown(t)
			for _, f := range []*foreground{called, waiter, signalled} {
				if !f.over() {
					continue
				}
				text := "no report"
				if b, err := os.ReadFile(f.report); err == nil {
					text = string(b)
				}
				t.Errorf("%v ended with %d while the job goes on: %s\n%s", f.cmd.Args, f.status(), f.said(), text)
			}
			if t.Failed() {
				return
			}
			w.report("status", "disturbed-start").has("state=running", "confirmed=false")
			signalled.signal(syscall.SIGTERM)
			touch(t, leave)
			called.proven(9)
			signalled.proven(11)
			waiter.wantStatus(10)
			w.report("status", "disturbed-start").has("state=settled", "confirmed=true", "exit.code=10")
			if left := ""; !eventually(func() bool { left = loadedUnits("disturbed-*", "unitward-guard-*"); return left == "" }) {
				t.Errorf("units are left: %s", left)
			}
		})
	}
}

// What is started while the manager executes itself anew runs once, and its code
// comes back; or the start fails, and nothing ran.
func TestDisturbedStarts(t *testing.T) {
	in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
		t.Cleanup(func() { settleDown(t) })
		ran := filepath.Join(t.TempDir(), "ran")
		runs, done := 0, 0
		for range 8 {
			reexec := exec.Command("systemctl", manager(), "daemon-reexec")
			if err := reexec.Start(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				a := w.do("run", "--", "sh", "-c", "echo x >>"+ran+"; exit 7")
				switch runs++; a.code {
				case 7:
					done++
				case 125:
					t.Logf("nothing ran: %s", a.err)
				default:
					t.Errorf("want status 7 of %s", a)
				}
				if n := lineCount(t, ran); n != done {
					t.Fatalf("%d of %d jobs ran %d times: %s", done, runs, n, a)
				}
			}
			_ = reexec.Wait() // its own reply is lost with the manager that was
		}
		if done < runs/2 {
			t.Errorf("%d of %d jobs ran", done, runs)
		}
		left := ""
		if !eventually(func() bool { left = loadedUnits("unitward-sh-*", "unitward-guard-*"); return left == "" }) {
			t.Errorf("units are left: %s", left)
		}
		if left != "" {
			for unit := range strings.Lines(left) {
				shell(t, "systemctl", manager(), "stop", strings.Fields(unit)[0])
			}
		}
	})
}

// The job ends while the manager's bus is away.
func TestDisturbedWithoutBroker(t *testing.T) {
	needRig(t)
	if os.Geteuid() == 0 {
		t.Skip("the system's bus serves all the rest of the machine too; the user's has the same code paths")
	}
	w := newWard(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	leave := in("leave")
	called := w.run("-u", "unbrokered-call", "--", "sh", "-c", until(in("up1"), leave, 9))
	w.want(0, "start", "-u", "unbrokered-start", "--", "sh", "-c", until(in("up2"), leave, 10))
	waiter := w.waiting("unbrokered-start")
	exists(t, in("up1"))
	exists(t, in("up2"))
	unit := broker(t)
	t.Cleanup(func() { settleDown(t) })
	t.Cleanup(func() { exec.Command("systemctl", "--user", "start", "dbus.socket").Run() })
	exec.Command("systemctl", "--user", "stop", "dbus.socket", unit).Run()
	touch(t, leave)
	// The private socket holds no unit, but the manager tells of the end there.
	called.proven(9)
	waiter.wantStatus(10)
	a := w.do("run", "-u", "unbrokered-run", "--", "sh", "-c", "exit 13")
	if a.code != 13 {
		t.Errorf("want status 13 by the private socket, of %s", a)
	}
}

// The first who speaks to a manager by its bus has that started, and the manager enters
// it a little later. The private socket, which holds no unit, is not taken meanwhile: a
// server would have a recorder with each of its jobs to its end.
func TestDisturbedBusBegins(t *testing.T) {
	needRig(t)
	if os.Geteuid() == 0 {
		t.Skip("the system's bus serves all the rest of the machine too; the user's has the same code paths")
	}
	w := newWard(t)
	unit := broker(t)
	t.Cleanup(func() { settleDown(t) })
	for i := range 5 {
		name := "begins-" + strconv.Itoa(i)
		shell(t, "systemctl", "--user", "stop", unit)
		w.want(3, "run", "-u", name, "--", "sh", "-c", "exit 3")
		b, err := os.ReadFile(filepath.Join(w.state, "jobs", name, "job.json"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), `"recorder":false`) {
			t.Fatalf("the unit of %s could not be held: %s", name, b)
		}
		settleDown(t)
	}
}

// proven wants a run to end with the code, and to know all of its end.
func (f *foreground) proven(want int) {
	f.t.Helper()
	f.wantStatus(want)
	readReport(f.t, f.report).has("confirmed=true", "exit.known=true", "tree.empty=true", "reason=failed")
}

// waiting is a `unitward wait` under way.
func (w *ward) waiting(name string) *foreground {
	w.t.Helper()
	return w.begin(w.cmd("wait", name))
}

// What is run while the bus is away for good and what ends meanwhile, be it seen at
// once or by a client that sleeps until all is as it was.
func TestDisturbedBusComesBack(t *testing.T) {
	needRig(t)
	if os.Geteuid() == 0 {
		t.Skip("the system's bus serves all the rest of the machine too; the user's has the same code paths")
	}
	w := newWard(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	t.Cleanup(func() { settleDown(t) })
	t.Cleanup(func() { exec.Command("systemctl", "--user", "start", "dbus.socket").Run() })
	var runs []*foreground
	for i := range 7 {
		n := strconv.Itoa(i)
		runs = append(runs, w.run("-u", "back-"+n, "--", "sh", "-c", until(in("up"+n), in("leave"+n), 20+i)))
		exists(t, in("up"+n))
	}
	leave := func(i int) { touch(t, in("leave"+strconv.Itoa(i))) }
	ends := func(i int) {
		t.Helper()
		leave(i)
		runs[i].proven(20 + i)
	}
	unit, asleep := broker(t), runs[6]
	asleep.signal(syscall.SIGSTOP)
	exec.Command("systemctl", "--user", "stop", "dbus.socket", unit).Run()
	leave(6)
	if !eventually(func() bool { return exec.Command("systemctl", "--user", "is-active", "back-6.service").Run() != nil }) {
		t.Fatal("back-6 does not end")
	}
	ends(0)
	// The private sockets end too.
	shell(t, "systemctl", "--user", "daemon-reexec")
	exec.Command("systemctl", "--user", "is-active", "basic.target").Run()
	ends(1)
	shell(t, "systemctl", "--user", "start", "dbus.socket")
	ends(2)
	settleDown(t)
	ends(3)
	shell(t, "systemctl", "--user", "restart", broker(t))
	ends(4)
	settleDown(t)
	asleep.signal(syscall.SIGCONT)
	asleep.proven(26)
	ends(5)
}
