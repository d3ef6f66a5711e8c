package keeper

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// The main process is as it was asked for, to the byte.
func TestReaperBecomes(t *testing.T) {
	s := subreaper(t)
	dir := t.TempDir()
	odd := dir + "/d\xff \n"
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	answer := dir + "/answer"
	caller := ReadCaller()
	c := &Command{
		Path: path, Dir: odd, Umask: 0o027, Rlimits: caller.Rlimits[:],
		Argv: []string{"\xffname", "", " ", "$HOME", "%i", "\n\x01", strings.Repeat("z", 100<<10), "-"},
		Env: []string{childVariable + "=tell=" + answer, "a b=1", "BASH_FUNC_f%%=() { :; }", "V=\xff\xfe", "V=again", "EMPTY=",
			"L=" + strings.Repeat("v", 100<<10)},
		Stderr: os.Stderr,
	}
	for i := range 16 { // 1.6 MiB in all
		c.Argv = append(c.Argv, strings.Repeat(string(rune('a'+i)), 100<<10))
	}
	c.Rlimits[unix.RLIMIT_CORE] = unit.Rlimit{Soft: 0, Hard: min(4096, c.Rlimits[unix.RLIMIT_CORE].Hard)}
	c.Rlimits[unix.RLIMIT_NOFILE] = unit.Rlimit{Soft: 33, Hard: min(66, c.Rlimits[unix.RLIMIT_NOFILE].Hard)}
	if e := ended(t, started(t, s, c)); e.Status != 0 {
		t.Fatalf("status %#x", int(e.Status))
	}
	w := answered(t, answer)
	if !reflect.DeepEqual(texts(w.Argv), c.Argv) {
		t.Errorf("argv is %.300q", w.Argv)
	}
	if !reflect.DeepEqual(texts(w.Env), c.Env) {
		t.Errorf("the environment is %.300q", w.Env)
	}
	if string(w.Dir) != odd || w.Umask != c.Umask {
		t.Errorf("directory %q, umask %o", w.Dir, w.Umask)
	}
	if !reflect.DeepEqual(w.Rlimits, c.Rlimits) {
		t.Errorf("the limits are\n%v, want\n%v", w.Rlimits, c.Rlimits)
	}
	if len(w.FDs) > 0 {
		t.Errorf("the descriptors %q were passed on", w.FDs)
	}
}

// Without limits the job has those of this program's caller, not Go's own.
func TestReaperGivesTheOriginalNofile(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `ulimit -Sn 77 && exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=keep=", "JOB=ulimit -Sn")
	out, err := cmd.Output()
	if err != nil || !strings.HasSuffix(string(out), "\n77\n") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestReaperSession(t *testing.T) {
	s := subreaper(t)
	out := t.TempDir() + "/out"
	c := shell(`exec >"$0"; read -r stat </proc/self/stat; echo "$stat"; grep -E '^Sig(Blk|Ign)' /proc/self/status; ls /proc/$$/fd`, out)
	r := started(t, s, c)
	ended(t, r)
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(b), "\n")
	// pid, comm, state, ppid, group, session
	main := strconv.Itoa(r.MainPID())
	if got, want := strings.Fields(lines[0])[3:6], []string{strconv.Itoa(r.PID()), main, main}; !reflect.DeepEqual(got, want) {
		t.Errorf("parent, group and session are %v, want %v", got, want)
	}
	if got := lines[1:3]; !reflect.DeepEqual(got, []string{"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"}) {
		t.Errorf("the signals are %q", got)
	}
}

// A main process that is to have a terminal leads its session there; one that
// another session has is not taken from it.
func TestReaperTerminal(t *testing.T) {
	s := subreaper(t)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	c := shell(`read -r _ _ _ _ group session tty foreground _ </proc/self/stat
		test $group = $session -a $session = $foreground -a $tty != 0 && exec 3<>/dev/tty && exit 4
		exit 5`)
	c.Stdin, c.Stdout, c.Terminal = tty, tty, true
	if e := ended(t, started(t, s, c)); e.Status.ExitStatus() != 4 {
		t.Errorf("status %d", e.Status.ExitStatus())
	}
	c.Argv[2] = "exec sleep 1000"
	started(t, s, c)
	for want, in := range map[syscall.Errno]*os.File{unix.EPERM: tty, unix.ENOTTY: nil} {
		c.Stdin = in
		r, err := s.Fork(c)
		if err != nil {
			t.Fatal(err)
		}
		var be *BecomeError
		if err := r.Execute(""); !errors.As(err, &be) || be.Op != "TIOCSCTTY" || be.Errno != want {
			t.Errorf("%v, want TIOCSCTTY: %v", err, want)
		}
		childless(t, r)
	}
}

// Descriptors 0 to 2 can be each other's, and lie anywhere.
func TestReaperStreams(t *testing.T) {
	s := subreaper(t)
	dir := t.TempDir()
	for _, swap := range []bool{false, true} {
		file := func(name string) *os.File {
			f, err := os.OpenFile(dir+"/"+name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		in, out, errs := file("in"), file("out"), file("err")
		in.WriteString("hello\n")
		in.Seek(0, 0)
		c := shell("cat; echo out; echo err >&2")
		c.Stdin, c.Stdout, c.Stderr = in, out, errs
		if swap {
			// In a process that has them crosswise at 0 to 2.
			cmd := exec.Command("/bin/sh", "-c", `exec 3<&0 4>&1 5>&2; exec 0>&5 1<&3 2>&4 3>&- 4>&- 5>&-; exec "$0"`, os.Args[0])
			cmd.Env = append(os.Environ(), childVariable+"=crosswise=")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errs
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
		} else if e := ended(t, started(t, s, c)); e.Status != 0 {
			t.Errorf("status %#x", int(e.Status))
		}
		if b, _ := os.ReadFile(dir + "/out"); string(b) != "hello\nout\n" {
			t.Errorf("swapped %v: stdout is %q", swap, b)
		}
		if b, _ := os.ReadFile(dir + "/err"); string(b) != "err\n" {
			t.Errorf("swapped %v: stderr is %q", swap, b)
		}
	}
}

// crosswise runs a job in a process whose standard streams are its error
// stream, its input and its output.
func crosswise() {
	s, err := NewSubreaper()
	if err != nil {
		panic(err)
	}
	c := shell("cat; echo out; echo err >&2")
	c.Stdin, c.Stdout, c.Stderr = os.Stdout, os.Stderr, os.Stdin
	r, err := s.Fork(c)
	if err != nil {
		panic(err)
	}
	if err := r.Execute(""); err != nil {
		panic(err)
	}
	<-r.Childless()
	os.Exit(r.Exit().Status.ExitStatus())
}

func TestReaperCannotExecute(t *testing.T) {
	s := subreaper(t)
	dir := t.TempDir()
	file := func(name, content string, mode os.FileMode) string {
		t.Helper()
		if err := os.WriteFile(dir+"/"+name, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
		return dir + "/" + name
	}
	path := func(p string) func(*Command) { return func(c *Command) { c.Path = p } }
	for _, c := range []struct {
		name   string
		change func(*Command)
		op     string
		errno  syscall.Errno
	}{
		{"missing", path("/nonexistent"), "exec", syscall.ENOENT},
		{"below a file", path("/bin/sh/x"), "exec", syscall.ENOTDIR},
		{"missing interpreter", path(file("script", "#!/nonexistent\n", 0o700)), "exec", syscall.ENOENT},
		{"text", path(file("text", "true\n", 0o700)), "exec", syscall.ENOEXEC},
		{"not executable", path(file("plain", "#!/bin/sh\n", 0o600)), "exec", syscall.EACCES},
		{"directory", path(dir), "exec", syscall.EACCES},
		{"no directory", func(c *Command) { c.Dir = "/nonexistent" }, "chdir", syscall.ENOENT},
		{"a file for a directory", func(c *Command) { c.Dir = "/bin/sh" }, "chdir", syscall.ENOTDIR},
		{"an argument more than fits", func(c *Command) { c.Argv = []string{"x", strings.Repeat("x", 200<<10)} }, "exec", syscall.E2BIG},
		{"more than fits", func(c *Command) {
			for range 100 {
				c.Argv = append(c.Argv, strings.Repeat("x", 100<<10))
			}
		}, "exec", syscall.E2BIG},
		{"soft above hard", func(c *Command) { c.Rlimits = []unit.Rlimit{{Soft: 2, Hard: 1}} }, "setrlimit", syscall.EINVAL},
		{"no room", func(c *Command) {
			c.Rlimits = make([]unit.Rlimit, unix.RLIMIT_AS+1)
			for i := range c.Rlimits {
				c.Rlimits[i] = unit.Rlimit{Soft: 1 << 20, Hard: 1 << 20}
			}
			c.Path = "/nonexistent"
		}, "exec", syscall.ENOENT},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := shell("exit 0")
			c.change(cmd)
			r, err := s.Fork(cmd)
			if err != nil {
				t.Fatal(err)
			}
			var why *BecomeError
			if err := r.Execute(""); !errors.As(err, &why) || why.Op != c.op || why.Errno != c.errno {
				t.Errorf("Execute: %v, want %s: %v", err, c.op, c.errno)
			}
			childless(t, r)
			if err := r.Execute(""); err == nil {
				t.Error("it executes twice")
			}
		})
	}
	var why *BecomeError
	c := shell("exit 0")
	c.Env = []string{"A=a\x00b"}
	if _, err := s.Fork(c); !errors.As(err, &why) || why.Errno != syscall.EINVAL {
		t.Errorf("Fork with a NUL: %v", err)
	}
	if _, err := s.Fork(&Command{}); !errors.Is(err, unit.ErrUsage) {
		t.Errorf("Fork of nothing: %v", err)
	}
}

func TestReaperCredential(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("credential: only root can become another user")
	}
	s := subreaper(t)
	dir := t.TempDir()
	out, err := os.OpenFile(dir+"/out", os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	nice := 7
	c := shell("id -u; id -g; id -G; awk '{print $19}' /proc/self/stat")
	c.Stdout, c.Nice = out, &nice
	c.Credential = &Credential{UID: 4711, GID: 4712, Groups: []uint32{4713, 4714}}
	if e := ended(t, started(t, s, c)); e.Status != 0 {
		t.Errorf("status %#x", int(e.Status))
	}
	if b, _ := os.ReadFile(dir + "/out"); string(b) != "4711\n4712\n4712 4713 4714\n7\n" {
		t.Errorf("it is %q", b)
	}
	// A directory is looked up as the user.
	if err := os.Mkdir(dir+"/private", 0o700); err != nil {
		t.Fatal(err)
	}
	c.Dir = dir + "/private"
	r, err := s.Fork(c)
	if err != nil {
		t.Fatal(err)
	}
	var why *BecomeError
	if err := r.Execute(""); !errors.As(err, &why) || why.Op != "chdir" || why.Errno != syscall.EACCES {
		t.Errorf("Execute: %v", err)
	}
	childless(t, r)
}

func TestReaperCannotBecomeAnotherUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("credential: root may become anybody")
	}
	c := shell("exit 0")
	c.Credential = &Credential{UID: 0, GID: 0}
	r, err := subreaper(t).Fork(c)
	if err != nil {
		t.Fatal(err)
	}
	var why *BecomeError
	if err := r.Execute(""); !errors.As(err, &why) || why.Op != "setgroups" || why.Errno != syscall.EPERM {
		t.Errorf("Execute: %v", err)
	}
	childless(t, r)
}
