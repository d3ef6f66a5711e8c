package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// dump is a shell script that copies its own arguments and environment as the
// kernel has them, tells so, and waits to be allowed to end.
const dump = `cat /proc/$$/cmdline >$OUT/cmdline; cat /proc/$$/environ >$OUT/environ; touch $OUT/up; while ! [ -e $OUT/leave ]; do sleep .03; done; exit 8`

// secret is in every value that must not be seen by others.
const secret = "s3cr3t-44"

// Case 44: what the job is given arrives byte for byte, and nobody else sees
// its environment.
func TestBytes(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		text := secret + " tab\there\nline two\r\n\x1b[31m \"double\" 'single' `back` $HOME ${X} $$ 100% %h \\ \\n #x ;y ä€ trailing\\"
		bytesOf := func(from, to int) string {
			var b strings.Builder
			for c := from; c <= to; c++ {
				b.WriteByte(byte(c))
			}
			return b.String()
		}
		big := strings.Repeat("0123456789abcde\n", 120<<10/16-1)
		var many []string
		for i := 0; len(many)*(100<<10+9) < 19<<20/10; i++ {
			many = append(many, strings.Repeat(string(rune('a'+i%26)), 100<<10))
		}
		// A quarter of the stack is for arguments (execve(2)), of the test's own, too.
		var stack unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_STACK, &stack); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_STACK, &stack) })
		for _, c := range []struct {
			name string
			args []string
			env  []string
		}{
			{"text", []string{"$HOME", "${X}", "$$", "100%", "%h", `a\x41`, "it's", "", "a b", "\t\n\r\x1b", `"`, `\`, ";", "-x", "ä"},
				[]string{"A=" + text, "B=" + secret + "\n", "C= " + secret + " ", "EMPTY=", "D=" + secret + "\\", "E=\"" + secret + "\"", "F=" + secret + "=x=", "G=\n" + secret + "\n\n"}},
			{"control", []string{bytesOf(1, 127)}, []string{"A=" + secret + bytesOf(1, 127)}},
			{"not UTF-8", []string{"\xff\xfe", "a\x80b", bytesOf(1, 255)}, []string{"A=" + secret + bytesOf(1, 255), "B=" + secret + "\xff"}},
			{"name", []string{"x"}, []string{"BASH_FUNC_x%%=() { echo " + secret + "\n}", "A.B-C=" + secret, "ä=" + secret, "1=" + secret}},
			{"120 KiB", []string{big}, []string{"A=" + secret + big}},
			{"1.9 MiB", many, []string{"A=" + secret}},
			{"2 MiB", slices.Repeat([]string{strings.Repeat("x", 64<<10-1)}, 32), []string{"A=" + secret}},
		} {
			if c.name == "2 MiB" {
				if err := unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: 16 << 20, Max: stack.Max}); err != nil {
					t.Fatal(err)
				}
			}
			for _, verb := range []string{"run", "start"} {
				t.Run(c.name+"/"+verb, func(t *testing.T) {
					w := w.again(t)
					dir := t.TempDir()
					argv := append([]string{"sh", "-c", dump, "dump"}, c.args...)
					w.env = append([]string{"INVOCATION_ID=caller", "SYSTEMD_EXEC_PID=1", "LISTEN_PID=1", "LISTEN_FDS=1", "OUT=" + dir, "PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}, c.env...)
					for _, name := range []string{"GOCOVERDIR", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"} {
						if v, ok := os.LookupEnv(name); ok {
							w.env = append(w.env, name+"="+v)
						}
					}
					name := "bytes-" + verb
					var f *foreground
					if verb == "run" {
						f = w.run(append([]string{"-u", name, "--"}, argv...)...)
					} else {
						w.want(0, append([]string{"start", "-u", name, "--"}, argv...)...)
					}
					if !eventually(func() bool {
						_, err := os.Stat(filepath.Join(dir, "up"))
						return err == nil || f != nil && f.over()
					}) || f != nil && f.over() {
						said := ""
						if f != nil {
							said = f.said()
						}
						t.Fatalf("it does not run: %s", shorten(said))
					}

					var got []string
					if got = split(t, filepath.Join(dir, "cmdline")); !slices.Equal(got, argv) {
						t.Errorf("the arguments are %s, want %s", quoted(got), quoted(argv))
					}
					want := slices.DeleteFunc(append(slices.Clone(w.env), "UNITWARD_JOB="+name), ofUnit)
					want = append(want, told(t, w, name)...)
					got = split(t, filepath.Join(dir, "environ"))
					slices.Sort(got)
					slices.Sort(want)
					if !slices.Equal(got, want) {
						t.Errorf("the environment has %s and lacks %s", quoted(added(want, got)), quoted(added(got, want)))
					}
					nobodySees(t, w, name)
					var files []string // its launcher takes them away once it runs
					if !eventually(func() bool { files = runtimeFiles(); return len(files) == 0 }) {
						t.Errorf("the start left %q", files)
					}
					touch(t, filepath.Join(dir, "leave"))
					if f != nil {
						f.wantStatus(8)
						readReport(t, f.report).has("confirmed=true", "exit.code=8")
					} else {
						w.want(8, "wait", "--timeout", "15s", name)
					}
					if t.Failed() {
						return
					}
					// Nor afterwards, in what stays on disk.
					filepath.WalkDir(w.state, func(path string, d os.DirEntry, err error) error {
						if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(secret)) {
							t.Errorf("%s has a value", path)
						}
						return nil
					})
				})
			}
		}
	})
}

// Case 44: more arguments than the command can be given, though unitward could, are
// an error that says so, and nothing is run.
func TestArgumentsTooLong(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		// The kernel counts the path of what is executed, too.
		dir := t.TempDir()
		mark := filepath.Join(dir, "mark")
		for range 12 {
			dir = filepath.Join(dir, strings.Repeat("d", 200))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "marks"), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		w.env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		for _, verb := range []string{"run", "start"} {
			with := func(bytes int) *exec.Cmd {
				args := []string{verb, "--", "marks"}
				for ; bytes > 64<<10; bytes -= 64 << 10 {
					args = append(args, strings.Repeat("x", 64<<10-1))
				}
				return w.cmd(append(args, strings.Repeat("x", bytes))...)
			}
			// The most that unitward itself can be given.
			most := sort.Search(8<<20, func(bytes int) bool {
				c := with(bytes)
				c.Args[slices.Index(c.Args, verb)] = strings.Repeat("x", len(verb)) // no such verb
				return errors.Is(c.Run(), syscall.E2BIG)
			}) - 1
			a := w.finish(with(most))
			if a.code != 126 || !strings.Contains(a.err, "argument list too long") {
				t.Errorf("with %d bytes want status 126, and why, of %s", most, a)
			}
			if isThere(mark) {
				t.Error("it was run")
			}
			if left := w.want(0, "--json", "list", "--all").out; left != "[]\n" {
				t.Errorf("records are left: %s", left)
			}
		}
	})
}

// ofUnit is true for what systemd tells of a unit.
func ofUnit(kv string) bool {
	name, _, _ := strings.Cut(kv, "=")
	return unit.OfUnit(name)
}

// told is what systemd tells a running job of its unit.
func told(t *testing.T, w *ward, name string) (list []string) {
	t.Helper()
	r := w.report("--json", "status", name)
	switch w.isolation {
	case verify.IsolationService:
		if systemdVersion() >= 248 {
			list = append(list, "SYSTEMD_EXEC_PID="+r.get("pid"))
		}
		watch := shell(t, "systemctl", manager(), "show", "-P", "MemoryPressureWatch", name+".service")
		if events := cgroupMount() + r.get("cgroup") + "/memory.pressure"; strings.TrimSpace(watch) == "auto" && isThere(events) {
			list = append(list, "MEMORY_PRESSURE_WATCH="+events, "MEMORY_PRESSURE_WRITE=c29tZSAyMDAwMDAgMjAwMDAwMAA=")
		}
		fallthrough
	case verify.IsolationScope:
		list = append(list, "INVOCATION_ID="+r.get("invocation_id"))
	}
	return list
}

// What a unit's property opens is the command's, also where who keeps its output was
// given it, and nobody else's.
func TestOpenFile(t *testing.T) {
	need(t, verify.IsolationService)
	if v := systemdVersion(); v < 253 {
		t.Skipf("version: systemd %d has no OpenFile=, that of 253 has", v)
	}
	w := newWard(t)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"run", []string{"run"}},
		{"handed over", []string{"run", "-E", "A=\xff"}},
		{"captured", []string{"start", "-p", "LimitNOFILE=64"}},
		{"terminal", []string{"start", "--pty"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.again(t)
			dir := t.TempDir()
			args := slices.Clone(c.args)
			for i := range 14 {
				file := fmt.Sprintf("%s/f%d", dir, i)
				if err := os.WriteFile(file, fmt.Append(nil, i, "\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				args = append(args, "-p", fmt.Sprintf("OpenFile=%s:n%d:read-only", file, i))
			}
			name := strings.ReplaceAll("open-"+c.name, " ", "-")
			out := filepath.Join(dir, "out")
			args = append(args, "-u", name, "--", "bash", "-c",
				`exec 9>&-; for i in {3..16}; do [ $i = 9 ] || cat <&$i; done >$0; echo $LISTEN_FDS $LISTEN_FDNAMES $((LISTEN_PID - $$)) >>$0; exec 3<&-; readlink /proc/*/fd/* | grep -c "^${0%out}f0$" >>$0; exit 0`, out)
			w.want(0, args...)
			if c.args[0] == "start" {
				w.want(0, "wait", "--timeout", "15s", name)
			}
			b, _ := os.ReadFile(out)
			want := "0\n1\n2\n3\n4\n5\n7\n8\n9\n10\n11\n12\n13\n14 n0:n1:n2:n3:n4:n5:n6:n7:n8:n9:n10:n11:n12:n13 0\n0\n"
			if string(b) != want {
				t.Errorf("it was given %q, want %q", b, want)
			}
		})
	}
}

// over is true when the program has ended.
func (f *foreground) over() bool {
	select {
	case <-f.ended:
		return true
	default:
		return false
	}
}

func split(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

func quoted(list []string) string {
	var out []string
	for _, s := range list {
		out = append(out, shorten(fmt.Sprintf("%q", s)))
		if len(out) == 20 {
			out = append(out, fmt.Sprintf("… of %d", len(list)))
			break
		}
	}
	return strings.Join(out, " ")
}

// nobodySees looks for the secret in all that another user could read.
func nobodySees(t *testing.T, w *ward, name string) {
	t.Helper()
	if inRig() {
		suffix := ".service"
		if w.isolation == verify.IsolationScope {
			suffix = ".scope"
		}
		if out := shell(t, "systemctl", manager(), "show", "--all", name+suffix); strings.Contains(out, secret) {
			t.Errorf("a unit's property has a value: %s", out)
		}
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s has a value: %q", file, b)
		}
	}
	dirs := []string{w.state, "/run/unitward"}
	if inRig() {
		dirs = []string{"/run", "/var/lib", "/tmp"}
	}
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || strings.HasSuffix(path, "/environ") {
				return nil // the test's own copy is its own
			}
			info, err := d.Info()
			if err != nil || info.Mode().Perm()&0o044 == 0 || strings.HasPrefix(path, "/run/log") {
				return nil
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s, mode %v, has a value", path, info.Mode())
			}
			return nil
		})
	}
}
