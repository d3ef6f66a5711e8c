package launch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// parseEnvironment reads a file as EnvironmentFile= does: the state machine of
// systemd's load_env_file (src/basic/env-file.c), written down again.
func parseEnvironment(content string) []string {
	var out []string
	var key, value strings.Builder
	state, trim := "before key", 0
	push := func(trimmed bool) {
		v := value.String()
		if trimmed {
			v = v[:trim]
		}
		out = append(out, key.String()+"="+v)
		key.Reset()
		value.Reset()
		trim = 0
	}
	const space, newline = " \t\n\r", "\n\r"
	is := strings.IndexByte
	for i := 0; i < len(content); i++ {
		c := content[i]
		switch state {
		case "before key":
			if is("#;", c) >= 0 {
				state = "comment"
			} else if is(space, c) < 0 {
				state = "key"
				key.WriteByte(c)
			}
		case "key":
			if is(newline, c) >= 0 {
				state = "before key"
				key.Reset()
			} else if c == '=' {
				state = "before value"
			} else {
				key.WriteByte(c)
			}
		case "before value":
			switch {
			case is(newline, c) >= 0:
				state = "before key"
				push(false)
			case c == '\'':
				state = "single"
			case c == '"':
				state = "double"
			case c == '\\':
				state = "escape"
			case is(space, c) < 0:
				state = "value"
				value.WriteByte(c)
				trim = value.Len()
			}
		case "value":
			switch {
			case is(newline, c) >= 0:
				state = "before key"
				push(true)
			case c == '\\':
				state = "escape"
			default:
				value.WriteByte(c)
				if is(space, c) < 0 {
					trim = value.Len()
				}
			}
		case "escape":
			state = "value"
			if is(newline, c) < 0 {
				value.WriteByte(c)
				trim = value.Len()
			}
		case "single":
			if c == '\'' {
				state = "before value"
			} else {
				value.WriteByte(c)
			}
		case "double":
			switch c {
			case '"':
				state = "before value"
			case '\\':
				state = "double escape"
			default:
				value.WriteByte(c)
			}
		case "double escape":
			state = "double"
			if is("\"\\`$", c) >= 0 {
				value.WriteByte(c)
			} else if c != '\n' {
				value.WriteByte('\\')
				value.WriteByte(c)
			}
		case "comment":
			if is(newline, c) >= 0 {
				state = "before key"
			}
		}
	}
	if state != "before key" && state != "key" && state != "comment" {
		push(state == "value")
	}
	return out
}

func TestEnvironmentFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	variable := rapid.Custom(func(t *rapid.T) string {
		name := rapid.StringMatching(`[A-Za-z_][A-Za-z0-9_]{0,8}`).Draw(t, "name")
		odd := rapid.SampledFrom([]rune("\"\\`$'#;= \t\r\n\x01\x7f%{}äx"))
		return name + "=" + string(rapid.SliceOf(rapid.OneOf(odd, rapid.Rune())).Filter(func(rs []rune) bool {
			return !slices.Contains(rs, 0)
		}).Draw(t, "value"))
	})
	rapid.Check(t, func(t *rapid.T) {
		env := rapid.SliceOf(variable).Draw(t, "env")
		if err := writeEnvironment(file, env); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(file)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := parseEnvironment(string(b)); !slices.Equal(got, env) {
			t.Fatalf("%q was written as %q and read as %q", env, b, got)
		}
	})
}

func TestEnvironmentFileIsPrivateAndNew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "env")
	if err := writeEnvironment(file, []string{"A=b"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := writeEnvironment(file, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over an existing file: %v", err)
	}
}

func TestDirect(t *testing.T) {
	with := func(change func(*unit.Spec)) *unit.Spec {
		s := &unit.Spec{Command: []string{"make", "ä$%\n"}, Path: "/bin/make", Dir: "/src", Env: []string{"A=ö", "_b9="}}
		if change != nil {
			change(s)
		}
		return s
	}
	command := func(args ...string) func(*unit.Spec) { return func(s *unit.Spec) { s.Command = args } }
	env := func(kv ...string) func(*unit.Spec) { return func(s *unit.Spec) { s.Env = kv } }
	long := strings.Repeat("x", maxDirectArgument)
	for _, c := range []struct {
		name     string
		s        *unit.Spec
		recorder bool
		want     bool
	}{
		{"plain", with(nil), false, true},
		{"with a recorder", with(nil), true, false},
		{"with a recorder, as another user", with(func(s *unit.Spec) { s.UID = "nobody" }), true, true},
		{"with a recorder, as another group", with(func(s *unit.Spec) { s.GID = "nogroup" }), true, true},
		{"bytes in an argument", with(command("a", "\xff")), false, false},
		{"half a character", with(command("a", "ä"[:1])), false, false},
		{"the longest argument", with(command(long)), false, true},
		{"an argument too long", with(command(long + "x")), false, false},
		{"the longest command", with(command(long, long)), false, true},
		{"a command too long", with(command(long, long, "x")), false, false},
		{"bytes in the directory", with(func(s *unit.Spec) { s.Dir = "/\xff" }), false, false},
		{"bytes in the path", with(func(s *unit.Spec) { s.Path = "/\xff" }), false, false},
		{"bytes in a value", with(env("A=\xff")), false, false},
		{"bytes in a name", with(env("\xff=a")), false, false},
		{"a function of bash", with(env("BASH_FUNC_f%%=() { :; }")), false, false},
		{"a name with a space", with(env("a b=1")), false, false},
		{"a name that begins with a digit", with(env("9a=1")), false, false},
		{"no environment", with(env()), false, true},
	} {
		if got := direct(c.s, c.recorder); got != c.want {
			t.Errorf("%s: direct = %v, want %v", c.name, got, c.want)
		}
	}
}

func TestUnset(t *testing.T) {
	got := unset([]string{"LANG=C", "SECRET=x", "SECRET=y", "PATH=/m", "bad name=1", "KEEP=m", "INVOCATION_ID=m"}, []string{"KEEP=1", "PATH=/p", "HOME=/h"})
	for _, name := range []string{"KEEP", "PATH", "HOME", "bad name", "INVOCATION_ID"} {
		if slices.Contains(got, name) {
			t.Errorf("%s is unset: %q", name, got)
		}
	}
	for _, name := range append([]string{"SECRET"}, added[:]...) {
		if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != name })); n > 1 ||
			n == 0 && name != "PATH" && name != "HOME" {
			t.Errorf("%s is unset %d times: %q", name, n, got)
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		command []string
		want    string
	}{
		{[]string{"make", "test"}, "make test"},
		{[]string{"a\nb", "\x1b[2J", "\xff", "ä", "\x7f"}, "a?b ?[2J ? ä ?"},
		{[]string{""}, ""},
		{make([]string, 1000), strings.Repeat(" ", maxDescription) + "…"},
	} {
		if got := describe(c.command); got != c.want {
			t.Errorf("describe(%q) = %q, want %q", c.command, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		command := rapid.SliceOf(rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "b")) })).Draw(t, "command")
		command = append(command, strings.Repeat("ö", rapid.IntRange(0, 100).Draw(t, "more")))
		got := describe(command)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\n\r\x1b") || len(got) > maxDescription+utf8.UTFMax+len("…") {
			t.Fatalf("describe(%q) = %q, %d bytes", command, got, len(got))
		}
	})
}

func TestRecordedCommandIsBounded(t *testing.T) {
	if got := recorded([]string{"a", "", "b"}); !slices.Equal(got, []string{"a", "", "b"}) {
		t.Errorf("recorded = %q", got)
	}
	got := recorded([]string{"a", strings.Repeat("x", maxRecordedCommand), "b"})
	if !slices.Equal(got, []string{"a", "… (2 more arguments)"}) {
		t.Errorf("recorded = %.100q", got)
	}
	if recorded(nil) == nil {
		t.Error("the command of a record would be null")
	}
}

// What a manager opens by its name is the pipe, for as long as the start takes.
func TestNamedPipes(t *testing.T) {
	svc := dbusclient.Service{EnvironmentFile: filepath.Join(t.TempDir(), "nonce.env")}
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	var readers [2]*os.File
	var writer *os.File
	svc.Stdin, writer = pipe()
	readers[0], svc.Stdout = pipe()
	readers[1], svc.Stderr = pipe()
	written := false
	h := &handed{files: []string{svc.EnvironmentFile}, write: func() error { written = true; return nil }}
	name(h, unit.ManagerUser, &svc)
	if err := h.write(); err != nil || !written {
		t.Fatalf("%v, and the environment was written: %v", err, written)
	}
	for i, path := range []string{svc.StdoutFile, svc.StderrFile} {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(path); err != nil {
			t.Fatal(err)
		}
		f.Close()
		b := make([]byte, 4096)
		if n, err := readers[i].Read(b); err != nil || string(b[:n]) != path {
			t.Errorf("%q has come through the pipe of %s: %v", b[:n], path, err)
		}
	}
	f, err := os.Open(svc.StdinFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := writer.WriteString("in"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	if n, err := f.Read(b); err != nil || string(b[:n]) != "in" {
		t.Errorf("%q is read through the pipe of %s: %v", b[:n], svc.StdinFile, err)
	}
	if files := h.all(); !slices.Equal(files, []string{svc.EnvironmentFile, svc.StdinFile, svc.StdoutFile, svc.StderrFile}) {
		t.Errorf("%q go with the start", files)
	}
	h.remove()
	if left, _ := filepath.Glob(filepath.Dir(svc.StdoutFile) + "/*"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}
