package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shellPath is this program by the name of a shell.
func shellPath(t *testing.T) string {
	t.Helper()
	alone(t)
	unmanaged(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), shellName)
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// outcome is all that a caller sees of a command.
func outcome(t *testing.T, path string, args ...string) string {
	t.Helper()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "A=b c")
	cmd.Stdin = strings.NewReader("input\n")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // the state says it
	// dash names itself by what it was called as.
	return fmt.Sprintf("%v: %q, %q", cmd.ProcessState, out.String(), strings.ReplaceAll(errs.String(), path+":", "sh:"))
}

func TestShellIsUnseen(t *testing.T) {
	shell := shellPath(t)
	for _, args := range [][]string{
		{"-c", `echo "$0" "$@"; exit 7`, "name", "a b", ""},
		{"-c", "cat; echo err >&2; pwd; umask; echo $A; ulimit -n"},
		{"-ec", "false; echo no"},
		{"-c", "kill -9 $$"},
		{"-c", "kill -TERM $$"},
		{"-c", "exit 255"},
		{"-c", "exec no-such-command-anywhere"},
		{"-c", "yes | head -1"},
		{"-c", "if"},
		{"-s"},
		{"no-such-script"},
	} {
		want := strings.ReplaceAll(outcome(t, "/bin/sh", args...), "/bin/sh:", "sh:")
		if got := strings.ReplaceAll(outcome(t, shell, args...), "/bin/sh:", "sh:"); got != want {
			t.Errorf("%q:\n%s, of sh\n%s", args, got, want)
		}
	}
	if got, want := outcome(t, shell, "--", "cat"), outcome(t, "/bin/cat"); got != want {
		t.Errorf("-- cat: %s, want %s", got, want)
	}
	t.Setenv("UNITWARD_SHELL", "/bin/echo")
	if got := outcome(t, shell, "-c", "x"); !strings.Contains(got, `"-c x\n"`) {
		t.Errorf("UNITWARD_SHELL: %s", got)
	}
	for args, status := range map[string]int{"-- no-such-command-anywhere": 127, "-- /": 126, "--": 125} {
		cmd := exec.Command(shell, strings.Fields(args)...)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != status {
			t.Errorf("%s: status %d, want %d", args, got, status)
		}
	}
}

func TestShellPassesSignals(t *testing.T) {
	shell := shellPath(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH} {
		cmd, up := shellUp(t, shell, fmt.Sprintf(`trap "echo got; exit 3" %d; echo up; while :; do sleep .02; done`, int(sig)))
		for range 2 { // the first may be the last, as for a shell
			_ = cmd.Process.Signal(sig)
		}
		rest := readAll(up)
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 3 || !strings.Contains(rest, "got\n") {
			t.Errorf("%v: %v, %q", sig, err, rest)
		}
	}
	// It stops with what it runs, and goes on with it.
	cmd, up := shellUp(t, shell, `echo up; while :; do sleep .02; done`)
	pid := cmd.Process.Pid
	_ = cmd.Process.Signal(syscall.SIGTSTP)
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("%v, %v", ws, err)
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(syscall.SIGTERM)
	readAll(up)
	if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("after a stop: %v", err)
	}
}

// shellUp runs a script that says when it is up.
func shellUp(t *testing.T, shell, script string) (*exec.Cmd, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(shell, "-c", script)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() { late.Stop(); r.Close(); cmd.Process.Kill() })
	r.SetReadDeadline(time.Now().Add(time.Minute))
	b := make([]byte, 3)
	if _, err := r.Read(b); err != nil || string(b) != "up\n" {
		t.Fatalf("%q, %v", b, err)
	}
	return cmd, r
}

func readAll(r *os.File) string {
	r.SetReadDeadline(time.Now().Add(time.Minute))
	var b bytes.Buffer
	_, _ = b.ReadFrom(r)
	return b.String()
}

// What a shell has left behind goes with it, and it goes with its caller.
func TestShellLeavesNothing(t *testing.T) {
	shell := shellPath(t)
	cmd := exec.Command(shell, "-c", "setsid sleep 4711 >/dev/null 2>&1 & echo $!")
	b, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if pid := strings.TrimSpace(string(b)); exists("/proc/" + pid) {
		t.Errorf("%s is left", pid)
	}
	c, up := shellUp(t, shell, "echo up; exec sleep 4712")
	c.Process.Kill()
	c.Wait()
	readAll(up) // it ends when nobody holds the pipe any more
}

func TestShellOfMake(t *testing.T) {
	shell := shellPath(t)
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make: it is not installed")
	}
	for _, name := range []string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS"} {
		t.Setenv(name, "") // those of a make that runs this test
	}
	file := "SHELL = " + shell + "\nall: a b\na b:\n\t@echo $@ $$((1+2))\nbad:\n\t@exit 5\n"
	if err := os.WriteFile("Makefile", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{"all": "a 3\nb 3\n", "-j2 all": "a 3\nb 3\n", "bad": ""} {
		cmd := exec.Command("make", strings.Fields(args)...)
		b, err := cmd.Output()
		if lines := strings.Split(string(b), "\n"); len(lines) == 3 && lines[0] > lines[1] {
			b = []byte(lines[1] + "\n" + lines[0] + "\n")
		}
		if string(b) != want || (err != nil) != (args == "bad") {
			t.Errorf("make %s: %q, %v", args, b, err)
		}
	}
}

func TestShellOfNPM(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("clients: npm is not installed; make test installs it, as root on Debian")
	}
	shell := shellPath(t)
	t.Setenv("PATH", filepath.Dir(npm)+":/usr/bin:/bin")
	if err := os.WriteFile("package.json", []byte(`{"name":"x","version":"1.0.0","scripts":{"a":"echo $npm_lifecycle_event \"$@\"; exit 7"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("npm", "--offline", "--no-update-notifier", "--silent", "--script-shell="+shell, "run", "a")
	b, err := cmd.Output()
	if string(b) != "a\n" || cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("npm: %q, %v", b, err)
	}
	names, _ := filepath.Glob(filepath.Join(os.Getenv("UNITWARD_STATE_DIR"), "jobs", "unitward-*"))
	if len(names) != 1 {
		t.Errorf("it ran %v", names)
	}
}
