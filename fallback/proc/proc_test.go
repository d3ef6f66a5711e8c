package proc

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rest is what follows the state in a stat whose process is 1, group 2,
// session 3, with 4 threads, started at 5 and whose environment ends at 6.
func rest() string {
	f := strings.Fields(strings.Repeat("0 ", 49))
	f[0], f[1], f[2], f[16], f[18], f[47] = "1", "2", "3", "4", "5", "6"
	f[10], f[11], f[12], f[13] = "10", "20", "30", "40"
	return strings.Join(f, " ")
}

func TestParseStat(t *testing.T) {
	want := Stat{PID: 7, State: 'S', PPID: 1, PGID: 2, Session: 3, Threads: 4, CPU: 100, StartTime: 5, EnvEnd: 6}
	for _, comm := range []string{"sh", "", "a b", ") R 0 0", "((", "))", "x\ny", "\xff"} {
		want.Comm = comm
		got, err := ParseStat("7 (" + comm + ") S " + rest() + "\n")
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", comm, got, err)
		}
	}
	for flags, exiting := range map[string]bool{"4194304": false, "4194308": true, "4194563": false} {
		f := strings.Fields(rest())
		f[5] = flags
		if got, err := ParseStat("7 (sh) S " + strings.Join(f, " ")); err != nil || got.Exiting != exiting {
			t.Errorf("flags %s: %+v, %v", flags, got, err)
		}
	}
	for _, bad := range []string{"", "7", "7 (sh", "7 )sh(", "7 (sh) S", "x (sh) S " + rest(), "0 (sh) S " + rest(), "-1 (sh) S " + rest(),
		"7 (sh) SS " + rest(), "7 (sh) S x " + rest()[2:], "7 (sh) S " + strings.Replace(rest(), " 5 ", " -5 ", 1), "7 (sh) S " + rest()[:len(rest())-5]} {
		if got, err := ParseStat(bad); err == nil {
			t.Errorf("%q is %+v", bad, got)
		}
	}
}

func TestEnded(t *testing.T) {
	for s, want := range map[Stat]bool{
		{State: 'Z', Threads: 1}: true, {State: 'X'}: true, {State: 'Z', Threads: 2}: false, {State: 'S', Threads: 1}: false,
	} {
		if s.Ended() != want {
			t.Errorf("%+v ended is %v", s, !want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("7 (sh) S " + rest())
	f.Add("7 (a) b) S 1 2 3")
	own, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(own))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseStat(text)
		if err != nil {
			if s != (Stat{}) {
				t.Fatalf("%q is wrong and %+v", text, s)
			}
			return
		}
		if s.PID <= 0 || !strings.Contains(text, "("+s.Comm+")") {
			t.Fatalf("%q is %+v", text, s)
		}
		// Whatever the name, the numbers are the same.
		again, err := ParseStat(strings.Replace(text, "("+s.Comm+")", "(x)", 1))
		if s.Comm = "x"; err != nil || again != s {
			t.Fatalf("%q is %+v, with another name %+v, %v", text, s, again, err)
		}
	})
}

func TestCarries(t *testing.T) {
	for env, want := range map[string]bool{
		"": false, "A=1\x00": false, "J=x\x00": true, "A=1\x00J=x\x00": true, "A=1\x00J=x": true, "J=x": true,
		"AJ=x\x00": false, "J=xy\x00": false, "A=1\nJ=x\x00": false, "J=\x00x\x00": false, "\x00\x00J=x\x00": true,
	} {
		if carries([]byte(env), "J=x") != want {
			t.Errorf("%q carries it: %v", env, !want)
		}
	}
}

func FuzzCarries(f *testing.F) {
	f.Add([]byte("A=1\x00J=x\x00"), "J=x")
	f.Add([]byte("J=xy"), "J=x")
	f.Fuzz(func(t *testing.T, env []byte, assignment string) {
		if strings.Contains(assignment, "\x00") || assignment == "" {
			t.Skip("no assignment")
		}
		if carries(env, assignment) != slices.Contains(strings.Split(string(env), "\x00"), assignment) {
			t.Fatalf("%q in %q", assignment, env)
		}
		if !carries(append(slices.Clone(env), "\x00"+assignment...), assignment) {
			t.Fatalf("%q is not found at the end of %q", assignment, env)
		}
	})
}

func TestParseCgroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/a/b\n":                              "/a/b",
		"12:cpu:/x\n1:name=systemd:/y\n0::/a\n":  "/a",
		"12:cpu:/x\n1:name=systemd:/y:z\n":       "/y:z",
		"12:cpu,cpuacct:/x\n":                    "",
		"":                                       "",
		"0::/a\\040b (deleted)\n":                "/a\\040b (deleted)",
		"1:name=systemd\n:::\n\n0:/not this one": "",
	} {
		if got := ParseCgroup(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestBelow(t *testing.T) {
	for _, c := range []struct {
		cgroup, top string
		want        bool
	}{{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/a", "/", true}, {"/", "/", true}} {
		if Below(c.cgroup, c.top) != c.want {
			t.Errorf("%s below %s: %v", c.cgroup, c.top, !c.want)
		}
	}
}

func TestHides(t *testing.T) {
	const plain = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
	for text, want := range map[string]string{
		plain: "", "": "", "x\n": "", "1 2 3 / /proc rw\n": "",
		"22 27 0:21 / /proc rw,relatime - proc proc rw,hidepid=invisible\n":    "hidepid=invisible",
		"22 27 0:21 / /proc rw,hidepid=2 - proc proc rw\n":                     "hidepid=2",
		"22 27 0:21 / /proc rw,relatime shared:5 - proc proc rw,hidepid=off\n": "",
		"22 27 0:21 / /proc rw - proc proc rw,hidepid=0,gid=1\n":               "",
		"22 27 0:21 / /proc rw - proc proc rw,hidepid=4\n" + plain:             "",
		plain + "23 22 0:22 / /proc rw - proc proc rw,hidepid=4\n":             "hidepid=4",
		plain + "23 22 0:22 / /mnt/proc rw - proc proc rw,hidepid=4\n":         "",
	} {
		if got := hides(text, "/proc"); got != want {
			t.Errorf("%q hides by %q, want %q", text, got, want)
		}
	}
}

func FuzzTexts(f *testing.F) {
	f.Add("12:cpu:/x\n1:name=systemd:/y\n0::/a\n")
	f.Add("22 27 0:21 / /proc rw - proc proc rw,hidepid=2\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c := ParseCgroup(text); strings.Contains(c, "\n") || !strings.Contains(text, c) {
			t.Fatalf("%q is in the cgroup %q", text, c)
		}
		if h := hides(text, "/proc"); h != "" && (!strings.HasPrefix(h, "hidepid=") || !strings.Contains(text, h)) {
			t.Fatalf("%q hides by %q", text, h)
		}
	})
}

// patience bounds a wait for a condition. It is no expectation.
const patience = time.Minute

// A process that was opened stays the one it was.
func TestProcess(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{"A=1", "UNITWARD_JOB=foo"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	p, err := Root.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// A program's arguments and environment are there a moment after it is.
	var s Stat
	for deadline := time.Now().Add(patience); ; {
		if s, err = p.Stat(); err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", s, err)
		}
		if _, n, err := p.Carries(s, "A=1", 100); err == nil && n > 0 && p.Member(s).Command == "sleep 600" {
			break
		}
	}
	if s.PID != pid || s.PPID != os.Getpid() || s.PGID != unix.Getpgrp() || s.StartTime == 0 {
		t.Errorf("%+v", s)
	}
	if other, err := Root.Stat(pid); err != nil || other.StartTime != s.StartTime {
		t.Errorf("by its number: %+v, %v", other, err)
	}
	if m := p.Member(s); m.PID != pid || m.Command != "sleep 600" {
		t.Errorf("%+v", m)
	}
	for assignment, want := range map[string]bool{"UNITWARD_JOB=foo": true, "UNITWARD_JOB=fo": false} {
		if found, n, err := p.Carries(s, assignment, 100); err != nil || found != want || n != len("A=1 UNITWARD_JOB=foo ") {
			t.Errorf("carries %s: %v, %d bytes, %v", assignment, found, n, err)
		}
	}
	if found, n, err := p.Carries(s, "UNITWARD_JOB=foo", 10); !errors.Is(err, ErrUnknown) || found || n != 11 {
		t.Errorf("beyond the limit: %v, %d bytes, %v", found, n, err)
	}
	if found, _, err := p.Carries(s, "A=1", 10); err != nil || !found {
		t.Errorf("within the limit: %v, %v", found, err)
	}
	self, err := Root.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	theirs, err := p.Cgroup()
	if own, err2 := self.Cgroup(); err != nil || err2 != nil || own != theirs {
		t.Errorf("cgroups %q and %q, %v, %v", own, theirs, err, err2)
	}
	pids, err := Root.PIDs()
	if err != nil || !slices.Contains(pids, pid) {
		t.Errorf("%v, %v", pids, err)
	}

	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	cmd.Wait()
	_, statErr := p.Stat()
	_, _, envErr := p.Carries(s, "A=1", 100)
	_, cgroupErr := p.Cgroup()
	_, openErr := Root.Open(pid)
	for what, err := range map[string]error{"stat": statErr, "environ": envErr, "cgroup": cgroupErr, "open": openErr} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s after the end: %v", what, err)
		}
	}
	if err := p.Signal(0); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal after the end: %v", err)
	}
	if m := p.Member(s); m.Command != "[sleep]" {
		t.Errorf("after the end: %+v", m)
	}
}

func TestPlace(t *testing.T) {
	if ns, err := Root.Namespace(); err != nil || ns == 0 {
		t.Errorf("%d, %v", ns, err)
	}
	if boot, err := Root.BootID(); err != nil || len(boot) != 36 {
		t.Errorf("%q, %v", boot, err)
	}
	if _, err := Root.Hides(); err != nil {
		t.Error(err)
	}
	none := Dir(t.TempDir())
	if _, err := none.Namespace(); !errors.Is(err, ErrOtherNamespace) {
		t.Error(err)
	}
	_, bootErr := none.BootID()
	_, hidesErr := none.Hides()
	_, listErr := (none + "/x").PIDs()
	for what, err := range map[string]error{"boot": bootErr, "mount": hidesErr, "list": listErr} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
