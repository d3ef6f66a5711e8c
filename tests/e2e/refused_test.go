package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What keeps systemd from executing the command is no end of the command, also
// where a systemd before 256 calls the start done.
func TestNeverExecuted(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		user string
		// times is how often each of the verbs is tried.
		times int
		verbs []string
		says  string
		since int // the first systemd with the property
	}{
		{"group", []string{"--gid", "0"}, "tester", 15, []string{"run", "start"}, "", 0},
		{"directory", []string{"--working-directory", "/root"}, "tester", 15, []string{"run", "start"}, "", 0},
		{"user", []string{"--uid", "no-such-user"}, "root", 15, []string{"run", "start"}, "", 0},
		{"directory of the user", []string{"--uid", "tester", "--working-directory", "/root"}, "root", 15, []string{"run", "start"}, "", 0},
		// It is over time, and takes longer to end than a start goes without a look.
		{"what goes before", []string{"-p", "TimeoutStartSec=100ms", "-p", `ExecStartPre=/bin/sh -c "trap '' TERM; sleep 1.4"`}, "", 1,
			[]string{"run", "start --pty"}, "", 0},
		{"groups", []string{"-p", "SupplementaryGroups=daemon"}, "tester", 1, []string{"run", "start"}, "leave out -p 'SupplementaryGroups=daemon', or", 0},
		{"the start job", []string{"-p", "JobTimeoutSec=100ms", "-p", "ExecStartPre=/bin/sleep 3"}, "", 1, []string{"run"}, "JobTimeoutSec=", 258},
	} {
		t.Run(c.name, func(t *testing.T) {
			if v := systemdVersion(); v < c.since {
				t.Skipf("version: systemd %d has no such property, that of %d has", v, c.since)
			}
			w := newWard(t)
			if c.user != "" && (c.user == "root") != (os.Geteuid() == 0) {
				t.Skip("the other user has this case")
			}
			mark := filepath.Join(t.TempDir(), "ran")
			for range c.times {
				for _, verb := range c.verbs {
					a := w.want(125, append(append(strings.Fields(verb), c.args...), "--", "touch", mark)...)
					if !strings.Contains("\n"+a.err, "\nunitward: cannot start ") || strings.Contains(a.err, "cannot confirm") || !strings.Contains(a.err, c.says) {
						t.Fatalf("want an error of the start, and %q, of %s", c.says, a)
					}
				}
			}
			if isThere(mark) {
				t.Error("it ran")
			}
			if left := w.want(0, "--json", "list", "--all").out; left != "[]\n" {
				t.Errorf("records are left: %s", left)
			}
		})
	}
}

// A status of systemd's own numbers is the command's own where it ran.
func TestOwnStatuses(t *testing.T) {
	w := newWard(t)
	for _, code := range []string{"200", "203", "216", "217", "226"} {
		for range 5 {
			a := w.do("run", "-p", "TasksMax=100", "--", "sh", "-c", "exit "+code)
			if got := a.code; got != map[string]int{"200": 200, "203": 203, "216": 216, "217": 217, "226": 226}[code] {
				t.Fatalf("want status %s of %s", code, a)
			}
		}
	}
}

// A job that a property keeps from what was handed over to it has not started.
func TestHandoverHidden(t *testing.T) {
	w := newWard(t)
	hide := "InaccessiblePaths=/run"
	before := runtimeFiles() // of launchers that other tests have killed
	for range 5 {
		a := w.do("start", "-u", "hidden", "-p", hide, "--", "sh", "-c", "exit 5")
		if a.code == 0 && os.Geteuid() != 0 {
			w.want(5, "wait", "hidden") // see below
			continue
		}
		// A user's manager may not make the namespace, or say so (systemd 247 and 252).
		if a.code != 125 || !strings.Contains(a.err, "handover") && !strings.Contains(a.err, "NAMESPACE") && !strings.Contains(a.err, "InaccessiblePaths=") || strings.TrimSpace(a.out) != "" {
			t.Fatalf("want to be told of the handover, of %s", a)
		}
	}
	if os.Geteuid() != 0 {
		a := w.do("start", "-u", "hidden-home", "-p", "ProtectHome=yes", "--", "sh", "-c", "exit 5")
		switch {
		case a.code == 0: // ignored by a user's manager that may not make the namespace
			w.want(5, "wait", "hidden-home")
			w.want(0, "run", "-u", "hidden-home", "--", "true")
		case a.code != 125 || !strings.Contains(a.err, "ProtectHome="):
			t.Errorf("want to be told the reason, of %s", a)
		}
	}
	if files := added(before, runtimeFiles()); len(files) > 0 {
		t.Errorf("files are left: %q", files)
	}
	if left := w.want(0, "--json", "list").out; left != "[]\n" {
		t.Errorf("records are left: %s", left)
	}
	w.want(0, "start", "-u", "hidden", "--", "sh", "-c", "exit 5")
	w.want(5, "wait", "hidden")
}
