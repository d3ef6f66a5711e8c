package keeper

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// subreaper makes this process one, for the length of a test.
func subreaper(t testing.TB) *Subreaper {
	t.Helper()
	s, err := NewSubreaper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	return s
}

// shell is a command of sh, which finds the rest of argv in $0, $1 ….
func shell(script string, args ...string) *Command {
	return &Command{Path: "/bin/sh", Argv: append([]string{"sh", "-c", script}, args...),
		Env: os.Environ(), Umask: 0o022, Stderr: os.Stderr}
}

// started forks and executes c; all of it is ended with the test.
func started(t testing.TB, s *Subreaper, c *Command) *Reaper {
	t.Helper()
	r, err := s.Fork(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.End(); childless(t, r) })
	if err := r.Execute(""); err != nil {
		t.Fatal(err)
	}
	return r
}

// patience bounds every wait for a condition. It is no expectation: a test
// that waits this long has failed.
const patience = time.Minute

func childless(t testing.TB, r *Reaper) {
	t.Helper()
	await1(t, "Childless", r.Childless())
	// Then the rest has to be over too.
	await1(t, "Exited", r.Exited())
	if err := unix.Kill(r.PID(), 0); err != unix.ESRCH {
		t.Errorf("the reaper %d is still there: %v", r.PID(), err)
	}
	if r.ChildlessAt().IsZero() {
		t.Error("ChildlessAt is zero after Childless")
	}
}

func await1(t testing.TB, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come within %v", what, patience)
	}
}

func ended(t testing.TB, r *Reaper) Exit {
	t.Helper()
	await1(t, "Exited", r.Exited())
	e := r.Exit()
	if !e.Known {
		t.Fatal("the exit is not known")
	}
	return e
}

func TestReaperExit(t *testing.T) {
	s := subreaper(t)
	before := time.Now()
	for _, code := range []int{0, 1, 2, 7, 123, 125, 126, 127, 137, 203, 255} {
		r := started(t, s, shell("exit "+strconv.Itoa(code)))
		e := ended(t, r)
		if !e.Status.Exited() || e.Status.ExitStatus() != code {
			t.Errorf("status %#x, want the exit %d", int(e.Status), code)
		}
		if e.At.Before(before) || e.At.After(time.Now()) || e.MaxRSS <= 0 || e.CPU <= 0 {
			t.Errorf("the exit is %+v", e)
		}
		childless(t, r)
		if r.Lost() || len(r.Refused()) > 0 {
			t.Errorf("lost %v, refused %v", r.Lost(), r.Refused())
		}
	}
}

func TestReaperSignal(t *testing.T) {
	s := subreaper(t)
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGKILL, unix.SIGSEGV, unix.SIGPIPE, unix.SIGTERM, unix.SIGUSR1, unix.SIGCHLD, 64} {
		c := shell(fmt.Sprintf("kill -%d $$; exit 3", sig))
		c.Dir = t.TempDir()
		c.Rlimits = make([]unit.Rlimit, unix.RLIMIT_CORE+1)
		for i := range c.Rlimits {
			c.Rlimits[i] = unit.Rlimit{Soft: ^uint64(0), Hard: ^uint64(0)}
		}
		want := exec.Command("/bin/sh", c.Argv[1:]...)
		want.Dir = c.Dir
		want.Run()
		e := ended(t, started(t, s, c))
		// Whether there is a core is the machine's setting: both have the
		// same limit where this process has no lower one.
		if got, want := e.Status, want.ProcessState.Sys().(syscall.WaitStatus); got&0x7f != want&0x7f || got>>8 != want>>8 {
			t.Errorf("signal %d: status %#x, want %#x", sig, int(got), int(want))
		}
	}
}

// What waitid says in pieces becomes the wait status, the core flag too.
func TestReaperCore(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || bytes.HasPrefix(pattern, []byte("|")) || bytes.HasPrefix(pattern, []byte("/")) {
		t.Skipf("core: no file in the working directory on this machine: %q, %v", pattern, err)
	}
	var have syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_CORE, &have); err != nil || have.Max == 0 {
		t.Skipf("core: none is allowed here: %+v, %v", have, err)
	}
	c := shell("ulimit -c unlimited; kill -SEGV $$")
	c.Dir = t.TempDir()
	if e := ended(t, started(t, subreaper(t), c)); !e.Status.CoreDump() || e.Status.Signal() != unix.SIGSEGV {
		t.Errorf("status %#x, want SEGV with a core", int(e.Status))
	}
}

// Nothing but the standard streams reaches a job, also while other jobs are
// made, nor does a reaper hold more than it needs.
func TestReaperDescriptors(t *testing.T) {
	s := subreaper(t)
	leak, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if err := unix.Dup3(int(leak.Fd()), 200, 0); err != nil { // without CLOEXEC
		t.Fatal(err)
	}
	defer unix.Close(200)
	r := started(t, s, shell("while :; do sleep 1; done"))
	want := []string{"/dev/null", "/dev/null"}
	for i := range 20 {
		other := started(t, s, shell("exec sleep 1000"))
		var got map[string]string
		waitFor(t, func() bool { // it opens some itself at first
			got = fds(t, other.MainPID())
			return len(got) == 3
		})
		if got["0"] != want[0] || got["1"] != want[1] {
			t.Fatalf("job %d has the descriptors %v", i, got)
		}
		held := 0
		waitFor(t, func() bool { held = len(fds(t, other.PID())); return held <= 4 })
		other.End()
		childless(t, other)
	}
	r.End()
	childless(t, r)
	if e := r.Exit(); e.Status.Signal() != unix.SIGKILL {
		t.Errorf("status %#x after End", int(e.Status))
	}
}

func fds(t *testing.T, pid int) map[string]string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if target, err := os.Readlink(dir + e.Name()); err == nil {
			out[e.Name()] = target
		}
	}
	return out
}

// Before Execute nothing of the command is there, and End leaves nothing.
func TestReaperNeverExecuted(t *testing.T) {
	s := subreaper(t)
	file := t.TempDir() + "/ran"
	r, err := s.Fork(shell(`: >"$0"`, file))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", r.MainPID())); err != nil || string(b) != "unitward-reaper\n" {
		t.Errorf("the main process is %q, %v", b, err)
	}
	r.End()
	childless(t, r)
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}

// BenchmarkReaper takes turns with a plain fork and exec, and compares the
// medians: other work on the machine meets both.
func BenchmarkReaper(b *testing.B) {
	s := subreaper(b)
	c := &Command{Path: "/bin/true", Argv: []string{"true"}, Env: os.Environ(), Umask: 0o022}
	var plain, exited, all []float64
	for b.Loop() {
		start := time.Now()
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, float64(time.Since(start)))
		start = time.Now()
		r, err := s.Fork(c)
		if err != nil {
			b.Fatal(err)
		}
		if err := r.Execute(""); err != nil {
			b.Fatal(err)
		}
		<-r.Exited()
		exited = append(exited, float64(time.Since(start)))
		<-r.Childless()
		all = append(all, float64(time.Since(start)))
	}
	b.StopTimer()
	median := func(in []float64) float64 { sort.Float64s(in); return in[len(in)/2] / 1e3 }
	b.ReportMetric(median(plain), "exec-µs")
	b.ReportMetric(median(exited), "exited-µs")
	b.ReportMetric(median(all), "childless-µs")
	b.ReportMetric(float64(private(b, started(b, s, shell("exec sleep 1000")).PID())), "reaper-KiB")
}

// private is the memory that is a process's alone, in KiB.
func private(t testing.TB, pid int) (kib int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "Private_") {
			n, _ := strconv.Atoi(strings.Fields(value)[0])
			kib += n
		}
	}
	return kib
}

// What a reaper sent before it was killed is heard, also when it was told
// something that it did not live to read.
func TestReadRecordOfTheDead(t *testing.T) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	sent := record{kind: recordExit, status: 5 << 8}
	if _, err := unix.Write(ends[1], (*[recordSize]byte)(unsafe.Pointer(&sent))[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := unix.Write(ends[0], []byte{tellEnd}); err != nil {
		t.Fatal(err)
	}
	unix.Close(ends[1])
	var got record
	if n, err := readRecord(ends[0], &got); err != nil || n == 0 || got != sent {
		t.Errorf("the first record is %+v (%d bytes, %v), want %+v", got, n, err, sent)
	}
	if n, err := readRecord(ends[0], &got); err != nil || n != 0 {
		t.Errorf("then there are %d bytes, %v", n, err)
	}
}
