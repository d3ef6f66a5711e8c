package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// wire is a way to another host that leads back here: what stands in for ssh
// runs the command that it is given. That is all there is of ssh to a bus that
// comes by systemd-stdio-bridge.
type wire struct {
	t   testing.TB
	dir string
}

// newWire is a line that works. It comes before a ward, whose jobs are stopped by
// it.
func newWire(t *testing.T) *wire {
	t.Helper()
	needRig(t)
	w := &wire{t, t.TempDir()}
	w.is(passes)
	t.Setenv("SYSTEMD_SSH", w.ssh())
	return w
}

func (w *wire) ssh() string { return filepath.Join(w.dir, "ssh") }

// What stands in for ssh. It is told "-xT -- HOST COMMAND".
const (
	passes  = `while [ "$1" != -- ]; do shift; done; shift 2; exec "$@"`
	refuses = `echo "ssh: connect to host far port 22: Connection refused" >&2; exit 255`
	hangs   = `exec sleep 1231`
)

// is makes what stands in for ssh do something from its next start on. It is
// replaced, not written: a shell may be reading it.
func (w *wire) is(script string) {
	w.t.Helper()
	next := w.ssh() + ".next"
	script = "#!/bin/sh\necho $$ >>" + w.dir + "/pids\n" + script + "\n"
	if err := os.WriteFile(next, []byte(script), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(next, w.ssh()); err != nil {
		w.t.Fatal(err)
	}
}

// pids are those that were started.
func (w *wire) pids() (pids []int) {
	b, _ := os.ReadFile(filepath.Join(w.dir, "pids"))
	for _, field := range strings.Fields(string(b)) {
		n, _ := strconv.Atoi(field)
		pids = append(pids, n)
	}
	return pids
}

// breaks ends the connections that stand.
func (w *wire) breaks() {
	w.t.Helper()
	broken := 0
	for _, pid := range w.pids() {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); strings.HasPrefix(string(name), "systemd-stdio-b") && syscall.Kill(pid, syscall.SIGKILL) == nil {
			broken++
		}
	}
	if broken == 0 {
		w.t.Fatal("there is no connection to break")
	}
}

// needRoot is for what only root may ask of the managers that are not the
// caller's.
func needRoot(t *testing.T) {
	t.Helper()
	needRig(t)
	if os.Geteuid() != 0 {
		t.Skip("user: another manager than the user's own is root's to ask; TestRemoteDenied has what a user is told")
	}
}

// held are the slices that keep the ends of jobs elsewhere.
func held() string { return loadedUnits("unitwardhold*") }

func letGo(t testing.TB) {
	t.Helper()
	if !eventually(func() bool { return held() == "" }) {
		t.Errorf("the ends of jobs are still kept: %s", held())
	}
}

func fileOf(t testing.TB, file string) string {
	t.Helper()
	exists(t, file)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// A job of another host, in the foreground.
func TestHostRun(t *testing.T) {
	needRoot(t)
	newWire(t)
	w := newWard(t)
	f := w.run("--host", "alice@far", "-u", "far-seven", "--", "sh", "-c", "exit 7")
	f.wantStatus(7)
	rep := readReport(t, f.report)
	rep.has("confirmed=true", "grade=proven", "reason=failed", "exit.code=7", "remote.host=alice@far", "manager=system", "lifetime=detached", "boot_id=null")
	if said := fmt.Sprint(rep.get("tree.source")); !strings.Contains(said, "ControlGroup") {
		t.Errorf("the tree is empty by %q, want by the manager's word", said)
	}
	if said := f.said(); !strings.Contains(said, "host alice@far") || !strings.Contains(said, "ssh alice@far journalctl -u far-seven.service") {
		t.Errorf("run says %q of where the job is", said)
	}
	for signal, code := range map[string]int{"TERM": 143, "KILL": 137} {
		w.want(code, "run", "-q", "-H", "far", "--", "sh", "-c", "kill -"+signal+" $$")
	}
	left := filepath.Join(w.state, "left")
	w.want(3, "run", "-q", "-H", "far", "--", "sh", "-c", "setsid sleep 1232 & echo $! >"+left+"; exit 3")
	if pid, _ := strconv.Atoi(fileOf(t, left)); syscall.Kill(pid, 0) == nil {
		t.Errorf("process %d, which was left behind, is there", pid)
	}
	slow := w.run("-q", "-H", "far", "--timeout", "1s", "--", "sleep", "1233")
	slow.wantStatus(124)
	readReport(t, slow.report).has("reason=timeout", "confirmed=true")
	letGo(t)
}

// What a start is told that cannot be.
func TestHostRunNothing(t *testing.T) {
	needRoot(t)
	line := newWire(t)
	w := newWard(t)
	if systemdVersion() >= 256 {
		if a := w.want(126, "run", "-q", "-H", "far", "--", "/nonexistent/command"); !strings.Contains(a.err, "/nonexistent/command is not there, or cannot be executed, on host far") {
			t.Errorf("run says %s", a)
		}
	} else {
		w.want(203, "run", "-q", "-H", "far", "--", "/nonexistent/command") // systemd's own status, and not known to be
	}
	if a := w.want(125, "run", "-H", "far", "--", "./command"); !strings.Contains(a.err, "absolute path") {
		t.Errorf("run says %s", a)
	}
	line.is(refuses)
	if a := w.want(125, "run", "-H", "far", "--", "true"); !strings.Contains(a.err, "cannot reach the system manager of host far") || !strings.Contains(a.err, "Connection refused") {
		t.Errorf("run says %s", a)
	}
	if a := w.want(0, "list", "--all"); strings.Count(a.out, "\n") > 2 {
		t.Errorf("list has %s", a)
	}
	letGo(t)
}

// A signal ends a start that waits for a host, and what waits for it.
func TestHostHangs(t *testing.T) {
	needRoot(t)
	line := newWire(t)
	w := newWard(t)
	line.is(hangs)
	f := w.run("-H", "far", "--", "true")
	if !eventually(func() bool { return len(line.pids()) == 1 }) {
		t.Fatal("nothing was started that leads there")
	}
	f.signal(syscall.SIGINT)
	f.wantStatus(130)
	if pid := line.pids()[0]; !eventually(func() bool { return syscall.Kill(pid, 0) != nil || zombie(pid) }) {
		t.Errorf("process %d is left", pid)
	}
}

// A job of another host, in the background.
func TestHostStart(t *testing.T) {
	needRoot(t)
	line := newWire(t)
	w := newWard(t)
	up, heeded := filepath.Join(w.state, "up"), filepath.Join(w.state, "heeded")
	w.want(0, "start", "-H", "far", "-u", "far-job", "--memory-max", "64M", "-p", "Description=far away", "--", "bash", "-c",
		"trap ': >"+heeded+"' USR1; touch "+up+"; while :; do sleep .03; done")
	exists(t, up)
	w.report("status", "far-job").has("state=running", "remote.host=far", "limits.0.applied=false")
	if a := w.want(0, "status", "far-job"); !strings.Contains(a.out, "system manager of host far") || !strings.Contains(a.out, "systemctl -H far status far-job.service") {
		t.Errorf("status says %s", a)
	}
	w.want(0, "kill", "-s", "USR1", "--who", "main", "far-job")
	exists(t, heeded)
	w.want(0, "pause", "far-job")
	if !eventually(func() bool { return strings.Contains(w.do("list").out, "paused") }) {
		t.Errorf("list says %s", w.do("list"))
	}
	w.want(0, "resume", "far-job")
	w.report("status", "far-job").has("state=running")
	// While nobody leads there, nothing is known and nothing is claimed.
	line.is(refuses)
	rep := w.report("status", "far-job")
	rep.has("state=unknown", "confirmed=false", "exit.known=false", "tree.empty=false")
	if said := rep.raw; !strings.Contains(said, "Connection refused") {
		t.Errorf("status misses what it says of the way there: %s", said)
	}
	w.want(123, "verify", "far-job")
	w.want(125, "stop", "far-job")
	line.is(passes)
	w.want(0, "stop", "far-job")
	w.report("status", "far-job").has("state=settled", "reason=cancelled", "confirmed=true", "stop.steps.0.action=TERM")
	letGo(t)
}

// A job that ends while nobody looks, and whose connection has long gone, has its
// end kept by its manager until it has been read.
func TestHostEndIsKept(t *testing.T) {
	needRoot(t)
	newWire(t)
	w := newWard(t)
	for i, script := range []string{"exit 0", "exit 9", "kill -SEGV $$"} {
		name := "far-kept-" + strconv.Itoa(i)
		w.want(0, "start", "-H", "far", "-u", name, "--", "sh", "-c", "sleep .1; "+script)
		if !eventually(func() bool {
			state := shell(t, "systemctl", "show", "-p", "ActiveState", "--value", name+".service")
			return strings.HasPrefix(state, "inactive") || strings.HasPrefix(state, "failed")
		}) {
			t.Fatal("it does not end")
		}
		shell(t, "systemctl", "daemon-reload")
		w.want([]int{0, 9, 139}[i], "wait", name)
		w.report("verify", name).has("confirmed=true", "exit.known=true")
		if !eventually(func() bool {
			return strings.HasPrefix(shell(t, "systemctl", "show", "-p", "LoadState", "--value", name+".service"), "not-found")
		}) {
			t.Errorf("%s.service is still loaded", name)
		}
	}
	letGo(t)
}

// A connection that breaks is made anew, and a signal that came meanwhile
// arrives.
func TestHostBreaks(t *testing.T) {
	needRoot(t)
	line := newWire(t)
	w := newWard(t)
	up, heeded, on := filepath.Join(w.state, "up"), filepath.Join(w.state, "heeded"), filepath.Join(w.state, "on")
	f := w.run("-q", "-H", "far", "-u", "far-broken", "--", "bash", "-c",
		"trap ': >"+heeded+"' TERM; touch "+up+"; until [ -e "+on+" ]; do sleep .03; done; exit 5")
	exists(t, up)
	if !eventually(func() bool { return w.report("status", "far-broken").get("state") == "running" }) {
		t.Fatal("its start is not recorded")
	}
	line.breaks()
	f.signal(syscall.SIGTERM)
	exists(t, heeded)
	line.is(refuses)
	line.breaks()
	touch(t, on)
	if !eventually(func() bool {
		return strings.HasPrefix(shell(t, "systemctl", "show", "-p", "ActiveState", "--value", "far-broken.service"), "failed")
	}) {
		t.Fatal("it does not end")
	}
	line.is(passes)
	f.wantStatus(5)
	readReport(t, f.report).has("confirmed=true", "exit.code=5")
	letGo(t)
}

// A connection that ends anywhere in a start leaves no job that nobody knows of:
// either nothing runs, or there is a record that leads to it.
func TestHostCutOff(t *testing.T) {
	needRoot(t)
	line := newWire(t)
	w := newWard(t)
	for n := 100; n <= 3700; n += 450 {
		once := filepath.Join(line.dir, "once"+strconv.Itoa(n))
		line.is(`while [ "$1" != -- ]; do shift; done; shift 2
			mkdir ` + once + ` 2>/dev/null || exec "$@"
			mkfifo ` + once + `/in
			"$@" <` + once + `/in & there=$!
			dd bs=1 count=` + strconv.Itoa(n) + ` 2>/dev/null >` + once + `/in
			kill -KILL $there`)
		name := "far-cut-" + strconv.Itoa(n)
		a := w.do("start", "-H", "far", "-u", name, "--", "sleep", "1234")
		loaded := loadedUnits(name+".service") != ""
		recorded := !strings.Contains(w.do("status", name).err, "cannot find job")
		t.Logf("after %d bytes: status %d, running %v, on record %v", n, a.code, loaded, recorded)
		if loaded && !recorded || a.code == 0 && (!loaded || !recorded) || a.code == 125 && loaded {
			t.Errorf("cut after %d bytes: %s: running %v, on record %v", n, a, loaded, recorded)
		}
		switch {
		case loaded:
			// Who could not know what became of it has asked for its end, too.
			if a := w.do("stop", "--grace", "0s", name); a.code != 0 && !strings.Contains(a.err, "it has ended") && !strings.Contains(a.err, "the manager has no such unit") {
				t.Errorf("want status 0 of %s", a)
			}
			if left := ""; !eventually(func() bool { left = loadedUnits(name + ".service"); return left == "" }) {
				t.Errorf("units are left: %s", left)
			}
		case recorded:
			w.report("verify", name).has("confirmed=false", "exit.known=false")
			w.want(0, "reap", "--accept-weak")
			w.want(125, "status", name)
		}
	}
	letGo(t)
}

// A record is believed only of the machine and the boot that it is of.
func TestHostIsAnother(t *testing.T) {
	needRoot(t)
	newWire(t)
	w := newWard(t)
	w.want(0, "start", "-H", "far", "-u", "far-other", "--", "sleep", "1235")
	far := func(id map[string]any) map[string]any { return id["far"].(map[string]any) }
	undo := w.tamper("far-other", func(id map[string]any) { far(id)["machine_id"] = strings.Repeat("ab", 16) })
	rep := w.report("status", "far-other")
	rep.has("confirmed=false", "state=unknown", "tree.empty=false")
	w.want(125, "stop", "far-other")
	w.want(125, "kill", "far-other")
	undo()
	undo = w.tamper("far-other", func(id map[string]any) { far(id)["began_us"] = 1 })
	w.report("status", "far-other").has("confirmed=false", "state=unknown", "exit.known=false", "tree.empty=true")
	w.want(125, "kill", "far-other")
	undo()
	w.report("status", "far-other").has("state=running")
	w.want(0, "stop", "far-other")
	letGo(t)
}

// -M .host is this machine's own manager, and all that can be seen of it here.
func TestMachineHere(t *testing.T) {
	needRoot(t)
	w := newWard(t)
	for _, name := range []string{".host", "@", "root@.host", "0@"} {
		f := w.run("-M", name, "--isolation", "service", "--", "sh", "-c", "echo here; exit 4")
		f.wantStatus(4)
		rep := readReport(t, f.report)
		rep.has("confirmed=true", "manager=system", "lifetime=call")
		if !strings.Contains(f.said(), "here") || strings.Contains(rep.raw, `"remote"`) {
			t.Errorf("-M %s: %q, %s", name, f.said(), rep.raw)
		}
	}
}

// The manager of another user of this machine.
func TestMachineUser(t *testing.T) {
	needRoot(t)
	w := newWard(t)
	said := filepath.Join(testerDir(t), "said")
	f := w.run("--user", "-M", "tester@.host", "-u", "far-user", "--", "sh", "-c", "id -un >"+said+"; systemctl --user is-active far-user.service >>"+said+"; exit 6")
	f.wantStatus(6)
	readReport(t, f.report).has("confirmed=true", "exit.code=6", "manager=user", "remote.machine=tester@.host")
	if got := fileOf(t, said); got != "tester\nactive" {
		t.Errorf("the job says %q, want that it is one of the user's manager", got)
	}
	w.want(0, "start", "--user", "-M", "tester@.host", "-u", "far-sleep", "--", "sleep", "1236")
	w.report("status", "far-sleep").has("state=running")
	w.want(0, "stop", "far-sleep")
	w.report("verify", "far-sleep").has("confirmed=true", "reason=cancelled")
	if a := w.want(125, "run", "--user", "-M", "nobody-of-that-name@.host", "--", "true"); !strings.Contains(a.err, "cannot reach the user manager of machine nobody-of-that-name@.host") {
		t.Errorf("run says %s", a)
	}
}

// A machine is entered as systemd does: here one that has nothing of its own but
// mounts.
func TestMachineNamed(t *testing.T) {
	needRoot(t)
	leader := exec.Command("unshare", "--mount", "sleep", "1237")
	if err := leader.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leader.Process.Kill(); leader.Wait() })
	file := "/run/systemd/machines/unitward-test"
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	if err := os.WriteFile(file, fmt.Appendf(nil, "NAME=unitward-test\nCLASS=container\nLEADER=%d\n", leader.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWard(t)
	if got := w.want(0, "__complete", "run", "-M", "").out; got != ".host\nunitward-test\n:4\n" {
		t.Errorf("completions are %q", got)
	}
	f := w.run("-q", "-M", "unitward-test", "--", "sh", "-c", "exit 8")
	f.wantStatus(8)
	readReport(t, f.report).has("confirmed=true", "exit.code=8", "remote.machine=unitward-test")
	if a := w.want(125, "run", "-M", "no-such-machine", "--", "true"); !strings.Contains(a.err, "cannot reach the system manager of machine no-such-machine") {
		t.Errorf("run says %s", a)
	}
	letGo(t)
}

// What a user is told who may not.
func TestRemoteDenied(t *testing.T) {
	needRig(t)
	if os.Geteuid() == 0 {
		t.Skip("root: root may; as a user this is run too")
	}
	newWire(t)
	w := newWard(t)
	if a := w.want(125, "run", "-H", "far", "--", "true"); !strings.Contains(a.err, "the system manager of host far denies it") {
		t.Errorf("run says %s", a)
	}
	f := w.run("--user", "-M", "@", "--", "sh", "-c", "exit 4")
	f.wantStatus(4)
	readReport(t, f.report).has("confirmed=true", "manager=user")
}
