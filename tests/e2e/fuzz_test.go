package e2e

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// arguments are what execve(2) takes for one: any bytes but NUL, with those that
// managers and shells give a meaning more often.
var arguments = rapid.Custom(func(t *rapid.T) string {
	special := rapid.SampledFrom([]string{"$", "${", "}", "$$", "%", "%%", `\`, `"`, "'", ";", " ", "\n", "\t", "-", "@", "+", "!", ":", "|", "#", "~", "/", ".", "..", "\x7f", "\x1b", "é", "\xff", "\xc3", "HOME"})
	parts := rapid.SliceOfN(rapid.OneOf(special, rapid.StringN(0, 4, 8)), 0, 8).Draw(t, "parts")
	return strings.ReplaceAll(strings.Join(parts, ""), "\x00", "")
})

// FuzzEscape holds that names are escaped as systemd-escape does.
func FuzzEscape(f *testing.F) {
	tool, err := exec.LookPath("systemd-escape")
	if err != nil {
		f.Skip("rig: needs systemd-escape")
	}
	for _, s := range []string{"org.example.Editor", "a-b", ".hidden", "a/b", "/", "-", "ä b", "\xff", `\x2d`, "x.", "A:_"} {
		f.Add(s)
	}
	for i := range 150 {
		f.Add(arguments.Example(i))
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ContainsRune(s, 0) || s == "" {
			return // no argument, and no name
		}
		out, err := exec.Command(tool, "--", s).Output()
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if got, want := unit.EscapeName(s), strings.TrimSuffix(string(out), "\n"); got != want {
			t.Errorf("%q: %q, systemd-escape says %q", s, got, want)
		}
	})
}

// FuzzArguments holds that arguments come to a service that prints its own as
// they were given.
func FuzzArguments(f *testing.F) {
	if !rigged() {
		f.Skip("rig: needs a systemd manager of its own; make test-rig has them")
	}
	bin, state := program(f), filepath.Join(f.TempDir(), "state")
	f.Add("", "$HOME", "%h")
	for i := range 40 {
		f.Add(arguments.Example(3*i), arguments.Example(3*i+1), arguments.Example(3*i+2))
	}
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if strings.ContainsRune(a+b+c, 0) {
			return // no arguments
		}
		const show = "cat /proc/$$/cmdline"
		argv := []string{"sh", "-c", show, "sh", a, b, c}
		args := append([]string{"--state-dir", state, "run", "--isolation", verify.IsolationService, "--"}, argv...)
		got, err := perform(exec.Command(bin, args...))
		if err != nil {
			t.Fatal(err)
		}
		want := []byte(strings.Join(argv, "\x00") + "\x00")
		if got.code != 0 || !bytes.Equal([]byte(got.out), want) {
			t.Errorf("%q: %q, status %d, %s", want, got.out, got.code, got.err)
		}
	})
}
