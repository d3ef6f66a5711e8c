package keeper

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// gated is a job that goes on when its gate is opened.
func gated(t *testing.T, script string) (c *Command, open func()) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	c = shell("read x; " + script)
	c.Stdin = r
	return c, func() { w.WriteString("\n") }
}

func lost(t *testing.T, r *Reaper) {
	t.Helper()
	waitFor(t, r.Lost)
	if err := unix.Kill(r.PID(), 0); err != unix.ESRCH {
		t.Errorf("the lost reaper %d is still there: %v", r.PID(), err)
	}
}

// What the reaper had comes to its keeper, the exit code and the record too.
func TestReaperKilled(t *testing.T) {
	s := subreaper(t)
	record := filepath.Join(t.TempDir(), "record")
	file, err := os.OpenFile(record, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	c, open := gated(t, "exec 0<&-; setsid sleep 1000 & exit 5")
	c.OnHangup, c.Record = HangupStay, file
	r := started(t, s, c)
	file.Close()
	if err := unix.Kill(r.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost(t, r)
	select {
	case <-r.Exited():
		t.Error("the main process ended with its reaper")
	default:
	}
	open()
	if e := ended(t, r); e.Status.ExitStatus() != 5 || e.CPU <= 0 {
		t.Errorf("the exit is %+v", e)
	}
	if got := recorded(t, record); !got.Exit.Known || got.Exit.Status != r.Exit().Status || !got.ChildlessAt.IsZero() {
		t.Errorf("the record is %+v", got)
	}
	select {
	case <-r.Childless():
		t.Error("childless with a child")
	case <-time.After(5 * adoptTick):
	}
	r.End()
	childless(t, r)
	if got := recorded(t, record); !got.ChildlessAt.Equal(r.ChildlessAt()) {
		t.Errorf("the record is %+v, childless at %v", got, r.ChildlessAt())
	}
}

// With HangupEnd the main process ends with its reaper, and the rest is the
// keeper's.
func TestReaperKilledOfACall(t *testing.T) {
	s := subreaper(t)
	for name, job := range hardJobs {
		t.Run(name, func(t *testing.T) {
			c := shell(job)
			in, out, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			c.Stdout = out
			r := started(t, s, c)
			out.Close()
			if _, err := io.ReadFull(in, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			if err := unix.Kill(r.PID(), unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			lost(t, r)
			if e := ended(t, r); e.Status != 3<<8 && e.Status != syscall.WaitStatus(unix.SIGKILL) {
				t.Errorf("status %#x", int(e.Status))
			}
			r.End()
			childless(t, r)
			if !noChildren() {
				t.Error("there are children left")
			}
		})
	}
}

func TestReaperKilledByItsJob(t *testing.T) {
	s := subreaper(t)
	r := started(t, s, shell("kill -9 $PPID; sleep 1000"))
	if e := ended(t, r); e.Status != syscall.WaitStatus(unix.SIGKILL) {
		t.Errorf("status %#x", int(e.Status))
	}
	r.End()
	childless(t, r)
	c := shell("kill -9 $PPID; exit 6")
	c.OnHangup = HangupStay
	r = started(t, s, c)
	if e := ended(t, r); e.Status.ExitStatus() != 6 {
		t.Errorf("status %#x", int(e.Status))
	}
	childless(t, r)
	if !r.Lost() {
		t.Error("the reaper was not lost")
	}
}

// Other children of the keeper stay their makers'.
func TestReaperKilledBesideOthers(t *testing.T) {
	s := subreaper(t)
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Wait()
	defer other.Process.Kill()
	guard, err := GuardSelf()
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Close()
	s.Own(guard.PID)
	defer s.Disown(guard.PID)
	second := started(t, s, shell("exec sleep 1000"))
	r := started(t, s, shell("setsid sleep 1000 & exec sleep 1000"))
	unix.Kill(r.PID(), unix.SIGKILL)
	lost(t, r)
	r.End()
	childless(t, r)
	for _, pid := range []int{other.Process.Pid, guard.PID, second.PID(), second.MainPID()} {
		if p, err := readStat(pid); err != nil {
			t.Errorf("process %d: %+v, %v", pid, p, err)
		}
	}
	select {
	case <-second.Exited():
		t.Error("the other job ended")
	default:
	}
}

func TestReaperStopped(t *testing.T) {
	s := subreaper(t)
	r := started(t, s, shell("exec sleep 1000"))
	if err := unix.Kill(r.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r.End()
	childless(t, r)
}

// The last words of one that ended with something unread are not lost: the
// kernel tells of the reset first.
func TestReadRecordAfterReset(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	send := func(fd int, b []byte) error { _, err := unix.Write(fd, b); return err }
	if err := send(pair[1], make([]byte, recordSize)); err != nil {
		t.Fatal(err)
	}
	if err := send(pair[0], []byte{'e'}); err != nil {
		t.Fatal(err)
	}
	unix.Close(pair[1])
	var rec record
	if n, err := readRecord(pair[0], &rec); err != nil || n != int(recordSize) {
		t.Errorf("the first: %d, %v", n, err)
	}
	if n, err := readRecord(pair[0], &rec); err != nil || n != 0 {
		t.Errorf("the end: %d, %v", n, err)
	}
}

// A reaper that ends while it is told to has still said all that it saw.
func TestReaperEndsWhileItIsTold(t *testing.T) {
	s := subreaper(t)
	c, open := gated(t, "exit 5")
	r := started(t, s, c)
	if err := unix.Kill(r.PID(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.PID()))
		return bytes.Contains(b, []byte(") T "))
	})
	open()
	// The main process is a zombie: nobody reaps it.
	waitFor(t, func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.MainPID()))
		return bytes.Contains(b, []byte(") Z "))
	})
	r.End()
	if e := ended(t, r); e.Status.ExitStatus() != 5 {
		t.Errorf("the exit is %+v", e)
	}
	childless(t, r)
	if r.Lost() {
		t.Error("the reaper counts as lost")
	}
}

func TestReaperObeysTerm(t *testing.T) {
	s := subreaper(t)
	c := shell("trap '' TERM; setsid sleep 1000 & sleep 1000")
	c.OnHangup = HangupStay
	r := started(t, s, c)
	if err := unix.Kill(r.PID(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	childless(t, r)
	if r.Lost() || r.Exit().Status.Signal() != unix.SIGKILL {
		t.Errorf("lost %v, %+v", r.Lost(), r.Exit())
	}
}

// What was killed at a random moment never loses an exit while the keeper
// lives, and leaves nothing.
func TestReaperKilledAtRandom(t *testing.T) {
	s := subreaper(t)
	for _, seed := range seeds(t, 300) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		scripts := []string{"exit 5", "sleep 0.002; exit 5", "setsid sleep 0.004 & exit 5", "(setsid sleep 1000 &) ; exit 5",
			"sleep 1000 | cat", `for i in 1 2 3 4 5 6; do (setsid sleep 1000 &); done; exit 5`, "kill -9 $PPID; exit 5"}
		c := shell(scripts[rnd.IntN(len(scripts))])
		c.OnHangup = Hangup(rnd.IntN(2))
		c.scan = rnd.IntN(2) == 0
		killMain, killReaper := rnd.IntN(2) == 0, rnd.IntN(3) > 0
		if strings.Contains(c.Argv[2], "PPID") {
			killReaper = false // else its parent may be this process
		}
		r, err := s.Fork(c)
		if err != nil {
			t.Fatal(err)
		}
		main := Process{PID: r.MainPID()}
		if main.StartTime, err = StartTime(main.PID); err != nil {
			t.Fatal(err)
		}
		reaper := Process{PID: r.PID()}
		if reaper.StartTime, err = StartTime(reaper.PID); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() { r.Execute("") })
		for target, do := range map[Process]bool{main: killMain, reaper: killReaper} {
			if do {
				delay := time.Duration(rnd.IntN(5000)) * time.Microsecond
				wg.Go(func() {
					time.Sleep(delay) // the moment is what is drawn
					target.Signal(unix.SIGKILL)
				})
			}
		}
		wg.Wait()
		if strings.Contains(c.Argv[2], "1000") && rnd.IntN(2) == 0 {
			r.End()
		}
		if strings.HasPrefix(c.Argv[2], "sleep 1000") {
			r.End()
		}
		e := ended(t, r)
		if e.Status != 5<<8 && e.Status != syscall.WaitStatus(unix.SIGKILL) {
			t.Errorf("seed %d, %s: status %#x", seed, c.Argv[2], int(e.Status))
		}
		if e.Status != 5<<8 && !killMain && !killReaper && c.OnHangup == HangupStay && !strings.Contains(c.Argv[2], "1000") {
			t.Errorf("seed %d, %s: nobody killed it, and its status is %#x", seed, c.Argv[2], int(e.Status))
		}
		r.End()
		childless(t, r)
		waitFor(t, noChildren)
		if t.Failed() {
			t.FailNow()
		}
	}
}

func TestReaperLeavesNothing(t *testing.T) {
	s := subreaper(t)
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	one := func(i int) {
		c := shell("exit 5")
		if i%10 == 0 {
			c.Path = "/nonexistent"
		}
		r, err := s.Fork(c)
		if err != nil {
			t.Error(err)
			return
		}
		if err := r.Execute(""); (err != nil) != (i%10 == 0) {
			t.Errorf("Execute: %v", err)
		}
		<-r.Childless()
		if e := r.Exit(); err == nil && i%10 != 0 && e.Status.ExitStatus() != 5 {
			t.Errorf("the exit is %+v", e)
		}
	}
	one(0)
	one(1)
	before := count()
	for i := range 200 {
		one(i)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 40 {
				one(i)
			}
		})
	}
	wg.Wait()
	if after := count(); after != before {
		t.Errorf("%d descriptors were open, now %d", before, after)
	}
	if !noChildren() {
		t.Error("there are children left")
	}
}

// Under the garbage collector and preemption: no child must run a part of
// the Go runtime. And what the keeper does with its memory is not its own.
func TestReaperUnderLoad(t *testing.T) {
	s := subreaper(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var keep [][]byte
			for {
				select {
				case <-stop:
					return
				default:
					keep = append(keep[:len(keep)%64], bytes.Repeat([]byte{1}, 16<<10))
				}
			}
		})
	}
	r := started(t, s, shell("exec sleep 1000"))
	for range 50 {
		if e := ended(t, started(t, s, shell("exit 5"))); e.Status.ExitStatus() != 5 {
			t.Fatalf("the exit is %+v", e)
		}
	}
	close(stop)
	wg.Wait()
	if kib := private(t, r.PID()); kib > 512 {
		t.Errorf("the reaper has %d KiB of its own", kib)
	}
}

// Nor is what a keeper leaves behind: pages that were shared are then its
// own.
func TestReaperMemoryAlone(t *testing.T) {
	k := keepOther(t, "echo up; exec sleep 1000", "HANGUP=stay").ready(t)
	k.says(t, "up")
	k.kill(t)
	kib := private(t, k.reaper)
	t.Logf("the reaper has %d KiB of its own", kib)
	if kib > 512 {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", k.reaper))
		t.Errorf("the reaper has %d KiB of its own:\n%s", kib, b)
	}
	unix.Kill(k.reaper, unix.SIGTERM)
	nothingLeft(t)
}

// A process of another user refuses, is reported, and does not keep the
// reaper busy.
func TestReaperRefused(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("refused: only root can make a program that becomes root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "unitward-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil || fs.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("refused: %s does not honour set-user-ID", dir)
	}
	b, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"keeper": 0o755, "root": 0o755 | os.ModeSetuid} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, killReaper := range []bool{false, true} {
		t.Run(fmt.Sprint("lost ", killReaper), func(t *testing.T) {
			cmd := self("keep", "")
			cmd.Path, cmd.Dir = filepath.Join(dir, "keeper"), "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
			k := keepIn(t, cmd, childVariable+"=root= "+dir+"/root & wait", "HANGUP=stay").ready(t)
			var root int
			if _, err := fmt.Fscanln(k.out, &root); err != nil {
				t.Fatal(err)
			}
			if killReaper {
				unix.Kill(k.reaper, unix.SIGKILL)
			}
			io.WriteString(k.in, "\n")
			k.says(t, fmt.Sprint([]int{root}))
			if unix.Kill(root, 0) != nil {
				t.Error("it is gone")
			}
			unix.Kill(root, unix.SIGKILL)
			k.cmd.Wait()
			nothingLeft(t)
		})
	}
}

// becomeRoot says its number, in a program with the set-user-ID bit, and
// stays.
func becomeRoot() {
	if err := unix.Setresuid(0, 0, 0); err != nil {
		panic(err)
	}
	fmt.Println(os.Getpid())
	time.Sleep(time.Hour)
}
