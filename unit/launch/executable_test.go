package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/unit"
)

// elf is a program of 64 bits and no code, whose loader is interp.
func elf(interp string) string {
	var b bytes.Buffer
	le := binary.LittleEndian
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	le.PutUint16(head[16:], 2)  // ET_EXEC
	le.PutUint16(head[18:], 62) // EM_X86_64
	le.PutUint32(head[20:], 1)
	le.PutUint64(head[32:], 64) // e_phoff
	le.PutUint16(head[52:], 64)
	le.PutUint16(head[54:], 56) // e_phentsize
	le.PutUint16(head[56:], 2)  // e_phnum
	b.Write(head)
	load := make([]byte, 56)
	le.PutUint32(load, 1) // PT_LOAD
	b.Write(load)
	name := make([]byte, 56)
	le.PutUint32(name, ptInterp)
	le.PutUint64(name[8:], 64+2*56)
	le.PutUint64(name[32:], uint64(len(interp)+1))
	b.Write(name)
	b.WriteString(interp + "\x00")
	return b.String()
}

// tree makes files of mode 0755, or 0644 where the name ends with "-".
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		mode := os.FileMode(0o755)
		if strings.HasSuffix(name, "-") {
			name, mode = strings.TrimSuffix(name, "-"), 0o644
		}
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), mode)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const script = "#!/bin/sh\nexit 7\n"

func TestExecutable(t *testing.T) {
	dir := tree(t, map[string]string{
		"script": script, "spaced": "#! \t/bin/sh -e\nexit 7\n", "tabbed": "#!/bin/sh\t-e\nexit 7\n", "unended": "#!/bin/sh",
		"crlf": "#!/bin/sh\r\nexit 7\r\n", "no-interpreter": "#!/nonexistent/sh\n", "blank": "#! \t\nexit\n", "bare": "#!", "text": "exit 7\n",
		"empty": "", "plain-": script, "plain-interpreter": "#!" + "@/plain\n", "dir-interpreter": "#!/tmp\n", "static": "\x7fELF\x01",
		"elf": elf("/nonexistent/ld.so"), "elf-dir": elf("/tmp"), "elf-cut": elf("/x")[:70], "elf-odd": "\x7fELF\x01\x01" + elf("/nonexistent")[6:], "binary": "\x00\x01\x02",
		"sub/file": "",
	})
	at := filepath.Join(dir, "plain-interpreter")
	if err := os.WriteFile(at, []byte("#!"+dir+"/plain\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Mkfifo(dir+"/fifo", 0o755), os.Symlink("script", dir+"/link"), os.Symlink("loop", dir+"/loop")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]syscall.Errno{
		"script": 0, "spaced": 0, "tabbed": 0, "unended": 0, "link": 0, "binary": 0, "elf-odd": 0, "static": 0,
		"crlf": syscall.ENOENT, "no-interpreter": syscall.ENOENT, "elf": syscall.ENOENT, "missing": syscall.ENOENT,
		"script/x": syscall.ENOTDIR, "sub": syscall.EISDIR, "fifo": syscall.EACCES, "plain": syscall.EACCES, "loop": syscall.ELOOP,
		"plain-interpreter": syscall.EACCES, "dir-interpreter": syscall.EACCES, "elf-dir": syscall.EACCES,
		"blank": syscall.ENOEXEC, "bare": syscall.ENOEXEC, "text": syscall.ENOEXEC, "empty": syscall.ENOEXEC, "elf-cut": syscall.ENOEXEC,
	} {
		path := filepath.Join(dir, name)
		err := executable(path)
		if want == 0 && err != nil || want != 0 && !errors.Is(err, want) {
			t.Errorf("executable(%s) = %v, want %v", name, err, want)
		}
		if err != nil && (!strings.Contains(err.Error(), name) || strings.ContainsAny(err.Error(), "\r\n")) {
			t.Errorf("executable(%s): %q", name, err)
		}
		// The kernel is the judge, but for what only it can tell.
		if name == "binary" || name == "static" || name == "elf-odd" || name == "bare" {
			continue
		}
		run := (&exec.Cmd{Path: path, Args: []string{name}}).Run()
		var exit *exec.ExitError
		ran := run == nil || errors.As(run, &exit)
		if ran != (want == 0) || !ran && want != syscall.EISDIR && !errors.Is(run, want) {
			t.Errorf("%s: the kernel says %v, want %v", name, run, want)
		}
	}
}

func TestResolve(t *testing.T) {
	dir := tree(t, map[string]string{
		"a/tool-": script, "b/tool": script, "c/tool/x": "", "a/only-": script, "d/tool": "#!/nonexistent\n", "d/gone": "#!/nonexistent/i\n",
		"here": script, "sub/here": script, "e/text": "exit\n", "ö b/odd": script,
	})
	in := func(dirs ...string) []string {
		for i, d := range dirs {
			if d != "" && d[0] == '@' {
				dirs[i] = dir + d[1:]
			}
		}
		return []string{"X=1", "PATH=" + strings.Join(dirs, ":"), "PATH=/nonexistent"}
	}
	for _, c := range []struct {
		name, command string
		env           []string
		want          string
		status        int
		says          string
	}{
		{"in PATH", "tool", in("@/b"), "/b/tool", 0, ""},
		{"in the second", "tool", in("/nonexistent", "@/b"), "/b/tool", 0, ""},
		{"not executable first", "tool", in("@/a", "@/b"), "/b/tool", 0, ""},
		{"a directory first", "tool", in("@/c", "@/b"), "/b/tool", 0, ""},
		{"a missing interpreter first", "tool", in("@/d", "@/b"), "/b/tool", 0, ""},
		{"below a file first", "tool", in("@/here", "@/b"), "/b/tool", 0, ""},
		{"odd bytes", "odd", in("@/ö b"), "/ö b/odd", 0, ""},
		{"an empty entry is the working directory", "here", in("", "@/b"), "/here", 0, ""},
		{"a last empty entry", "here", in("@/b", ""), "/here", 0, ""},
		{"a dot", "here", in("."), "/here", 0, ""},
		{"a relative entry", "here", in("sub"), "/sub/here", 0, ""},
		{"relative", "./here", nil, "/here", 0, ""},
		{"relative, below", "sub/here", nil, "/sub/here", 0, ""},
		{"relative, up", "sub/../here", nil, "/here", 0, ""},
		{"absolute", dir + "/here", nil, "/here", 0, ""},
		{"a slash takes no PATH", "b/nothing", in("@"), "", 127, "no such file"},

		{"empty", "", in("@/b"), "", 127, "empty"},
		{"nowhere", "nothing", in("@/a", "@/b"), "", 127, "not found in PATH="},
		{"no PATH", "tool", []string{"X=1"}, "", 127, "not found in PATH=/bin:/usr/bin"},
		{"an empty PATH is the working directory", "here", []string{"PATH="}, "/here", 0, ""},
		{"not executable", "only", in("@/b", "@/a"), "", 126, "permission denied"},
		{"only a directory", "tool", in("@/c"), "", 126, "is a directory"},
		{"only a missing interpreter", "gone", in("@/d", "@/b"), "", 127, "/nonexistent/i"},
		{"only text", "text", in("@/e"), "", 126, "exec format error"},
		{"the first refusal is told", "tool", in("@/d", "@/a", "@/c"), "", 126, "/a/tool: permission denied"},
		{"absolute and missing", dir + "/missing", nil, "", 127, "no such file"},
		{"absolute and a directory", dir + "/sub", nil, "", 126, "is a directory"},
	} {
		got, err := resolve(c.command, dir, c.env)
		if c.status == 0 {
			if err != nil || got != dir+c.want {
				t.Errorf("%s: Resolve = %q, %v; want %s", c.name, got, err, c.want)
			}
			continue
		}
		var start *unit.StartError
		if !errors.As(err, &start) || start.Status != c.status || !strings.Contains(start.Detail, c.says) || got != "" {
			t.Errorf("%s: Resolve = %q, %v; want status %d and %q", c.name, got, err, c.status, c.says)
		}
	}
}

// Without a PATH there is still one (execvp(3)).
func TestResolveWithoutPath(t *testing.T) {
	if got, err := resolve("sh", "/", nil); err != nil || got != "/bin/sh" && got != "/usr/bin/sh" {
		t.Errorf("Resolve = %q, %v", got, err)
	}
}

// A script's interpreter can be a script, and so on, five deep; the last is
// where it fails.
func TestInterpretersOfInterpreters(t *testing.T) {
	dir := tree(t, map[string]string{"last": "#!/no/such/interpreter\n", "text-": "exit\n", "plain": "exit\n"})
	chain := func(name string, n int, end string) string {
		path := end
		for i := range n {
			file := fmt.Sprintf("%s/%s%d", dir, name, i)
			if err := os.WriteFile(file, []byte("#!"+path+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			path = file
		}
		return path
	}
	loop := dir + "/loop"
	if err := os.WriteFile(loop, []byte("#!"+loop+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		want syscall.Errno
	}{
		{chain("one", 1, "/bin/sh"), 0}, {chain("five", 5, "/bin/sh"), 0}, {chain("six", 6, "/bin/sh"), syscall.ELOOP},
		{chain("gone", 2, dir+"/last"), syscall.ENOENT}, {chain("plain", 1, dir+"/plain"), syscall.ENOEXEC},
		{chain("closed", 1, dir+"/text"), syscall.EACCES}, {loop, syscall.ELOOP},
	} {
		err := executable(c.path)
		if c.want == 0 && err != nil || c.want != 0 && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.path, err, c.want)
		}
		run := (&exec.Cmd{Path: c.path, Args: []string{c.path}, Stdin: strings.NewReader("")}).Run()
		var exit *exec.ExitError
		if ran := run == nil || errors.As(run, &exit); ran != (c.want == 0) {
			t.Errorf("%s: the kernel says %v, want %v", c.path, run, c.want)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add([]byte(elf("/lib/ld.so")))
	f.Add([]byte(elf("")))
	f.Add([]byte("#!/bin/sh\x00"))
	f.Add([]byte("#!"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(dir, "program")
		if err := os.WriteFile(file, content, 0o755); err != nil {
			t.Fatal(err)
		}
		err := executable(file) // it must not panic
		var errno syscall.Errno
		if err != nil && !errors.As(err, &errno) {
			t.Fatalf("no errno in %v", err)
		}
	})
}
