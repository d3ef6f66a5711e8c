package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// handover is one of this test binary, which then tells what it is.
func handover(t *testing.T) (h *Handover, file, answer string) {
	t.Helper()
	dir := t.TempDir()
	c := ReadCaller()
	answer = dir + "/answer"
	path, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	h = NewHandover(&unit.Spec{Path: path, Command: []string{"x"}, Dir: dir, Umask: c.Umask, Rlimits: c.Rlimits},
		[]string{childVariable + "=tell=" + answer}, dir+"/status")
	return h, dir + "/handover", answer
}

// become runs h in another process: its exit status, and what Executed says.
func becomeOther(t *testing.T, h *Handover, file string) (status int, heard error) {
	t.Helper()
	if err := h.Write(file); err != nil {
		t.Fatal(err)
	}
	a, err := Listen(h.Status)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	cmd := self("become", file)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	heard = a.Executed(never)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Logf("output: %s", out.String())
	}
	return cmd.ProcessState.ExitCode(), heard
}

func answered(t *testing.T, file string) told {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var w told
	if err := json.Unmarshal(b, &w); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestBecomeByteForByte(t *testing.T) {
	h, file, answer := handover(t)
	odd := filepath.Dir(file) + "/d\xff \n"
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	h.Dir = []byte(odd)
	h.Argv = slices([]string{"\xffname", "", " ", "$HOME", "%i", "\n\x01", strings.Repeat("z", 100<<10), "-"})
	h.Env = append(h.Env, slices([]string{"a b=1", "BASH_FUNC_f%%=() { :; }", "V=\xff\xfe", "V=again", "EMPTY=", "L=" + strings.Repeat("v", 100<<10)})...)
	h.Umask = 0o027
	h.Rlimits[unix.RLIMIT_CORE] = unit.Rlimit{Soft: 0, Hard: min(4096, h.Rlimits[unix.RLIMIT_CORE].Hard)}
	h.Rlimits[unix.RLIMIT_NOFILE] = unit.Rlimit{Soft: 33, Hard: min(66, h.Rlimits[unix.RLIMIT_NOFILE].Hard)}
	status, heard := becomeOther(t, h, file)
	if status != 0 || heard != nil {
		t.Fatalf("status %d, heard %v", status, heard)
	}
	w := answered(t, answer)
	if !reflect.DeepEqual(texts(w.Argv), texts(h.Argv)) {
		t.Errorf("argv is %.300q", w.Argv)
	}
	if !reflect.DeepEqual(texts(w.Env), texts(h.Env)) {
		t.Errorf("the environment is %.300q", w.Env)
	}
	if string(w.Dir) != odd || w.Umask != h.Umask {
		t.Errorf("directory %q, umask %o", w.Dir, w.Umask)
	}
	if !reflect.DeepEqual(w.Rlimits, h.Rlimits) {
		t.Errorf("the limits are\n%v, want\n%v", w.Rlimits, h.Rlimits)
	}
	// Whoever runs the tests may have left descriptors open to all of us.
	if err := self("tell", answer).Run(); err != nil {
		t.Fatal(err)
	}
	if plain := answered(t, answer); !reflect.DeepEqual(w.FDs, plain.FDs) {
		t.Errorf("the descriptors %q were passed on, want %q", w.FDs, plain.FDs)
	}
}

// A Go program needs more address space than this, sh does not.
func TestBecomeUnderASmallAddressSpace(t *testing.T) {
	h, file, answer := handover(t)
	h.Path, h.Argv = []byte("/bin/sh"), slices([]string{"sh", "-c", `ulimit -v >"$0"`, answer})
	h.Rlimits[unix.RLIMIT_AS] = unit.Rlimit{Soft: 64 << 20, Hard: 64 << 20}
	if status, heard := becomeOther(t, h, file); status != 0 || heard != nil {
		t.Fatalf("status %d, heard %v", status, heard)
	}
	if b, err := os.ReadFile(answer); err != nil || string(b) != "65536\n" {
		t.Errorf("the address space is %q kB, %v", b, err)
	}
}

func TestBecomeFails(t *testing.T) {
	dir := t.TempDir()
	make := func(name, content string, mode os.FileMode) string {
		t.Helper()
		if err := os.WriteFile(dir+"/"+name, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	small := func(h *Handover) {
		h.Rlimits[unix.RLIMIT_AS] = unit.Rlimit{Soft: 1 << 20, Hard: 1 << 20}
		h.Path = []byte("/nonexistent")
	}
	path := func(p string) func(*Handover) { return func(h *Handover) { h.Path = []byte(p) } }
	for _, c := range []struct {
		name   string
		change func(*Handover)
		op     string
		errno  syscall.Errno
		status int
	}{
		{"missing", path("/nonexistent"), "exec", syscall.ENOENT, 127},
		{"below a file", path("/bin/sh/x"), "exec", syscall.ENOTDIR, 127},
		{"missing interpreter", path(make("script", "#!/nonexistent\n", 0o700)), "exec", syscall.ENOENT, 127},
		{"text", path(make("text", "true\n", 0o700)), "exec", syscall.ENOEXEC, 126},
		{"not executable", path(make("plain", "#!/bin/sh\n", 0o600)), "exec", syscall.EACCES, 126},
		{"directory", path(dir), "exec", syscall.EACCES, 126},
		{"no directory", func(h *Handover) { h.Dir = []byte("/nonexistent") }, "chdir", syscall.ENOENT, 125},
		{"a file for a directory", func(h *Handover) { h.Dir = []byte("/bin/sh") }, "chdir", syscall.ENOTDIR, 125},
		{"more than fits", func(h *Handover) { h.Argv = slices([]string{"x", strings.Repeat("x", 200<<10)}) }, "exec", syscall.E2BIG, 126},
		{"soft above hard", func(h *Handover) { h.Rlimits[unix.RLIMIT_CORE] = unit.Rlimit{Soft: 1, Hard: 0} }, "setrlimit", syscall.EINVAL, 125},
		{"no room to speak", small, "exec", syscall.ENOENT, 127},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, file, answer := handover(t)
			c.change(h)
			status, heard := becomeOther(t, h, file)
			var why *BecomeError
			if !errors.As(heard, &why) || why.Op != c.op || why.Errno != c.errno || status != c.status {
				t.Errorf("status %d, heard %v; want %d, %s: %v", status, heard, c.status, c.op, c.errno)
			}
			if _, err := os.Stat(answer); err == nil {
				t.Error("the command ran")
			}
		})
	}
}

func TestBecomeOfNothing(t *testing.T) {
	out, err := self("become", t.TempDir()+"/nothing").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 125 || !strings.HasPrefix(string(out), "unitward: cannot take over the job: ") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestStartTime(t *testing.T) {
	fields := func(comm string) string {
		return "42 (" + comm + ") S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 98765 20 21\n"
	}
	for _, comm := range []string{"sh", "", "a b", "a) S 1 1 1", "((", "))", ") R (", "a\nb", "\xff", "98765"} {
		if got, err := parseStartTime(fields(comm)); err != nil || got != 98765 {
			t.Errorf("parseStartTime(%q) = %d, %v", fields(comm), got, err)
		}
	}
	for _, stat := range []string{"", ")", "42 (sh)", "42 (sh) S 1 2 3", "42 (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18",
		strings.Replace(fields("sh"), "98765", "-1", 1), strings.Replace(fields("sh"), "98765", "x", 1)} {
		if got, err := parseStartTime(stat); err == nil {
			t.Errorf("parseStartTime(%q) = %d", stat, got)
		}
	}
	us, err := StartTime(os.Getpid())
	if err != nil || us == 0 {
		t.Fatalf("StartTime of this process = %d, %v", us, err)
	}
	cmd := self("nofile", "")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := StartTime(cmd.Process.Pid); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("StartTime of a process that is gone: %v", err)
	}
}

func FuzzStartTime(f *testing.F) {
	f.Add("sh", uint64(1))
	f.Add(") R 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0", ^uint64(0))
	f.Fuzz(func(t *testing.T, comm string, start uint64) {
		parseStartTime(comm) // it must not panic
		stat := fmt.Sprintf("42 (%s) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 %d 20", comm, start)
		if got, err := parseStartTime(stat); err != nil || got != start {
			t.Fatalf("parseStartTime(%q) = %d, %v", stat, got, err)
		}
	})
}

// What systemd is told of RLIMIT_NOFILE is what the caller had, not what the
// Go runtime makes of it.
func TestOriginalNofile(t *testing.T) {
	var have syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &have); err != nil {
		t.Fatal(err)
	}
	for _, soft := range []uint64{64, 100, have.Max} {
		// A shell in between, since Go gives its children a limit of its own.
		cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf(`ulimit -Sn %d && umask 031 && exec "$0"`, soft), os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"=nofile=")
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("%d %d true %d %d %d\n", soft, have.Max, soft, have.Max, 0o031); err != nil || string(out) != want {
			t.Errorf("under a soft limit of %d: %q, %v; want %q", soft, out, err, want)
		}
	}
}
