package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/unitward/unitward/verify"
)

// A manager that is reloaded after it took a request, and before it executes the
// command, reads the command again from what it wrote down of it: what is executed
// is still what was asked for.
func TestReloadBeforeExecution(t *testing.T) {
	needRig(t)
	nasty := []string{"$X", "$$", "${Y}", "$", ";", "a; b", `\;`, `"q"`, `'s'`, `\`, `\n`, "%i", "%%", "tab\t", "nl\nx", "é", "", " ", "@-+!", "#c"}
	want := ""
	for _, a := range nasty {
		want += "<" + a + ">"
	}
	for _, c := range []struct{ name, executable, dir string }{
		{"arguments", "/usr/bin/printf", "plain"},
		{"path", `a b;$x%i"q'.sh`, "plain"},
		{"directory", "/usr/bin/printf", `a b;$x%i"q'\d`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWardIn(t, verify.IsolationService)
			dir := filepath.Join(t.TempDir(), c.dir)
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			executable := c.executable
			if !filepath.IsAbs(executable) {
				executable = filepath.Join(dir, executable)
				if err := os.WriteFile(executable, []byte("#!/bin/sh\nexec printf \"$@\"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			signs := t.TempDir()
			up, leave := filepath.Join(signs, "up"), filepath.Join(signs, "leave")
			cmd := w.cmd(append([]string{"run", "-p", `ExecStartPre=/bin/sh -c "` + until(up, leave, 0) + `"`, "--", executable, "<%s>"}, nasty...)...)
			cmd.Dir = dir
			f := w.begin(cmd)
			exists(t, up)
			shell(t, "systemctl", manager(), "daemon-reload")
			touch(t, leave)
			f.wantStatus(0)
			if got := f.said(); got != want {
				t.Errorf("it was given %q, want %q", got, want)
			}
		})
	}
	t.Run("recorder of another user's", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("user: only root can start jobs of others")
		}
		w := newWardIn(t, verify.IsolationService)
		dir := t.TempDir()
		up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
		for _, d := range []string{filepath.Dir(dir), dir} {
			if err := os.Chmod(d, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		w.want(0, "start", "-u", "reloaded", "--uid", "nobody", "--output", "null", "--", "sh", "-c", until(up, leave, 9))
		exists(t, up)
		shell(t, "systemctl", manager(), "daemon-reload")
		touch(t, leave)
		w.want(9, "wait", "--timeout", "15s", "reloaded")
		w.report("status", "reloaded").has("state=settled", "confirmed=true", "exit.code=9")
		w.want(0, "start", "-u", "forgotten", "--uid", "nobody", "--output", "null", "--", "sh", "-c", "exit 8")
		shell(t, "systemctl", manager(), "daemon-reload")
		if left := ""; !eventually(func() bool { left = loadedUnits("forgotten.service"); return left == "" }) {
			t.Errorf("units are left: %s", left)
		}
		w.report("status", "forgotten").has("state=settled", "confirmed=true", "exit.code=8", "exit.source=recorder EXIT_CODE=exited EXIT_STATUS=8")
	})
}
