package e2e

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// trigger starts one and ends it, and all that it has, when the test ends.
func trigger(t *testing.T, w *ward, unit string, args ...string) {
	t.Helper()
	t.Cleanup(func() { dropUnits(unit, strings.TrimSuffix(unit, filepath.Ext(unit))+".service") })
	a := w.want(0, append([]string{"start", manager()}, args...)...)
	if a.out != unit+"\n" || a.err != "" {
		t.Fatalf("want the name %s of %s", unit, a)
	}
}

// runsOf waits for so many settled jobs of an owner.
func runsOf(t *testing.T, w *ward, owner string, n int) report {
	t.Helper()
	var out string
	if !eventually(func() bool {
		out = w.want(0, "list", "--all", "--json", "--owner", owner).out
		var all []struct{ State string }
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		settled := 0
		for _, j := range all {
			if j.State == "settled" {
				settled++
			}
		}
		return settled >= n
	}) {
		t.Fatalf("no %d jobs of %s have ended: %s", n, owner, out)
	}
	return parseReport(t, out)
}

// A timer starts a job of its own each time, with the caller's environment and
// directory, its output and its proof, and nothing of it stays.
func TestTimer(t *testing.T) {
	w := newWard(t)
	w.env = append(os.Environ(), "CALLERS=of the caller")
	before := runtimeFiles()
	trigger(t, w, "unitward-tick.timer", "-u", "unitward-tick", "-E", "GIVEN=given", "--on-active=100ms", "--timer-property=AccuracySec=1ms",
		"--", "sh", "-c", `umask; echo "$CALLERS, $GIVEN, $(pwd), $0 $1"; exit 3`, "a b", "$HOME")
	r := runsOf(t, w, "unitward-tick", 1)
	r.has("len=1", "0.reason=failed", "0.exit.code=3", "0.confirmed=true", "0.isolation=service")
	name := r.get("0.name")
	if !strings.HasPrefix(name, "unitward-tick-") {
		t.Errorf("the job is called %s", name)
	}
	if a := w.want(0, "logs", name); !strings.HasSuffix(a.out, "\nof the caller, given, /, a b $HOME\n") {
		t.Errorf("it wrote %q", a.out)
	}
	var left string
	if !eventually(func() bool {
		left = loadedUnits("unitward-tick*")
		return left == "" || strings.Contains(left, "failed")
	}) {
		t.Errorf("units are left: %s", left)
	}
	if after := runtimeFiles(); len(after) > len(before) {
		t.Errorf("files are left: %v", after)
	}
}

// A timer that goes on starts job after job.
func TestTimerRepeats(t *testing.T) {
	w := newWard(t)
	trigger(t, w, "unitward-again.timer", "-u", "unitward-again.timer", "--on-active=50ms", "--on-unit-inactive=50ms", "--timer-property=AccuracySec=1ms", "true")
	runsOf(t, w, "unitward-again", 3).has("0.reason=completed", "1.reason=completed", "2.reason=completed")
}

// What a trigger runs with is for nobody else to read, and its service lasts as
// long as the job and ends it.
func TestTriggeredService(t *testing.T) {
	w := newWard(t)
	trigger(t, w, "unitward-later.timer", "-u", "unitward-later", "-E", "GIVEN=hidden-value", "--description", "what comes later", "--on-active=1h", "--", "/bin/sleep", "381")
	shown := shell(t, "systemctl", manager(), "show", "unitward-later.service", "unitward-later.timer") + shell(t, "systemctl", manager(), "cat", "unitward-later.service")
	if strings.Contains(shown, "hidden-value") {
		t.Error("everybody can read the environment")
	}
	if !strings.Contains(shown, "Description=what comes later") {
		t.Errorf("no description: %s", shown)
	}
	for _, f := range runtimeFiles() {
		if info, err := os.Stat(f); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", f, info.Mode(), err)
		}
	}
	if a := w.want(125, "start", manager(), "-u", "unitward-later", "--on-active=2h", "true"); !strings.Contains(a.err, "already has a unit of that name") {
		t.Errorf("want a refusal of %s", a)
	}
	shell(t, "systemctl", manager(), "start", "unitward-later.service")
	alive(t, "/bin/sleep", "381")
	if state := strings.TrimSpace(shell(t, "systemctl", manager(), "is-active", "unitward-later.service")); state != "active" {
		t.Errorf("the service is %s", state)
	}
	shell(t, "systemctl", manager(), "stop", "unitward-later.service")
	if pids := processes([]string{"/bin/sleep", "381"}); len(pids) > 0 {
		t.Errorf("the job outlives its service: %v", pids)
	}
	runsOf(t, w, "unitward-later", 1).has("0.reason=signaled")
}

// The file of a trigger stays as long as the trigger or its service, and goes with
// the next look at all jobs; what is no trigger's stays.
func TestTriggerFiles(t *testing.T) {
	for _, verb := range []string{"list", "reap"} {
		w := newWard(t)
		before := runtimeFiles()
		trigger(t, w, "unitward-drops.timer", "-u", "unitward-drops", "--on-active=1h", "true")
		mine := func() []string {
			return slices.DeleteFunc(runtimeFiles(), func(f string) bool { return slices.Contains(before, f) })
		}
		w.want(0, verb)
		if files := mine(); len(files) != 1 {
			t.Fatalf("of a trigger that waits there is %q", files)
		}
		strange := filepath.Join(filepath.Dir(mine()[0]), "unitward-drops.trigger.stranger")
		touch(t, strange)
		t.Cleanup(func() { os.Remove(strange) })
		shell(t, "systemctl", manager(), "stop", "unitward-drops.timer")
		w.want(0, verb)
		if files := mine(); len(files) != 1 || files[0] != strange {
			t.Errorf("after %s there is %q, want %s alone", verb, files, strange)
		}
		os.Remove(strange)
	}
}

// A path starts a job, too.
func TestPathTrigger(t *testing.T) {
	w := newWard(t)
	dir := t.TempDir()
	there := filepath.Join(dir, "there")
	trigger(t, w, "unitward-watch.path", "-u", "unitward-watch", "--path-property=PathExists="+there, "--", "rm", there)
	touch(t, there)
	runsOf(t, w, "unitward-watch", 1).has("0.reason=completed")
}

// A socket goes to the command itself, which is the service.
func TestSocketTrigger(t *testing.T) {
	w := newWard(t)
	w.env = append(os.Environ(), "CALLERS=of the caller")
	dir := t.TempDir()
	socket, answer := filepath.Join(dir, "s"), filepath.Join(dir, "answer")
	trigger(t, w, "unitward-reply.socket", "-u", "unitward-reply", "--socket-property=ListenStream="+socket, "--", "sh", "-c",
		`echo "$LISTEN_FDS, $CALLERS, $(readlink /proc/self/fd/3 | cut -c1-6), $((LISTEN_PID - $$))" >"$0.new" && mv "$0.new" "$0"; sleep 391`, answer)
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	exists(t, answer)
	if b, _ := os.ReadFile(answer); string(b) != "1, of the caller, socket, 0\n" {
		t.Errorf("it was given %q", b)
	}
}

// Without a command the service is one that is there.
func TestTriggerOfAnotherService(t *testing.T) {
	w := newWard(t)
	shell(t, "systemd-run", manager(), "-q", "--unit=unitward-theirs", "sleep", "392")
	trigger(t, w, "unitward-theirs.timer", "-u", "unitward-theirs.service", "--on-active=1h")
	if unit := strings.TrimSpace(shell(t, "systemctl", manager(), "show", "-P", "Unit", "unitward-theirs.timer")); unit != "unitward-theirs.service" {
		t.Errorf("the timer starts %q", unit)
	}
}

func TestTriggerMistakes(t *testing.T) {
	w := newWard(t)
	before := runtimeFiles()
	for _, c := range []struct {
		args, says string
		status     int
	}{
		{"--on-active=soon -- true", `cannot set property OnActiveSec="soon": expected a time span`, 125},
		{"--on-active=1h --path-property=PathExists=/x -- true", "one unit starts it", 125},
		{"--timer-property=AccuracySec=1s -- true", "never elapses", 125},
		{"--socket-property=Listen=1 -- true", "a socket has no such property", 125},
		{"--on-active=1h --scope -- true", "a timer starts a service", 125},
		{"--on-active=1h --app-id x -- true", "", 125},
		{"--on-calendar=often -- true", "refuses its properties", 125},
		{"--on-active=1h -- no-such-command-anywhere", "not found", 127},
		{"--on-active=1h", "no command was given", 125},
		{"-u unitward-none --on-active=1h", "", 125},
		{"-u " + strings.Repeat("n", 201) + " --on-active=1h -- true", "200 at most", 125},
	} {
		a := w.want(c.status, append([]string{"start", manager()}, strings.Fields(c.args)...)...)
		if !strings.Contains(a.err, c.says) || a.out != "" {
			t.Errorf("want %q of %s", c.says, a)
		}
	}
	if left := loadedUnits("unitward-*.timer", "unitward-*.path", "unitward-*.socket"); left != "" {
		t.Errorf("units are left: %s", left)
	}
	if after := runtimeFiles(); len(after) > len(before) {
		t.Errorf("files are left: %v", after)
	}
}
