package keeper

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// Other children of the keeper stay their makers', and no signal is for them.
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
	owners, err := GuardProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer owners.Kill()
	for _, g := range []*Guard{guard, owners} {
		waitFor(t, func() bool { return guardName(g.PID) }) // it has a session of its own by then
	}
	control, spawned, err := Spawn("/bin/sleep", []string{"sleep", "1000"}, [3]*os.File{})
	if err != nil {
		t.Fatal(err)
	}
	control.Close()
	defer waitFor(t, func() bool { return unix.Kill(spawned, 0) == unix.ESRCH })
	defer unix.Kill(spawned, unix.SIGKILL)
	second := started(t, s, shell("exec sleep 1000"))
	r := started(t, s, shell("setsid sleep 1000 & exec sleep 1000"))
	unix.Kill(r.PID(), unix.SIGKILL)
	lost(t, r)
	adopted := r.Adopted()
	r.End()
	childless(t, r)
	for _, pid := range []int{other.Process.Pid, guard.PID, owners.PID, spawned, second.PID(), second.MainPID()} {
		for _, p := range adopted {
			if p.PID == pid {
				t.Errorf("process %d counts as the job's", pid)
			}
		}
		if p, err := readStat(pid); err != nil || p.ended() {
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

// Its keeper dies while a manager may be about to put the main process into a scope:
// it stays until it is there.
func TestMainProcessStaysForItsScope(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	there := "" // the longest of those of the hierarchies
	for line := range strings.Lines(string(own)) {
		if _, path, _ := strings.Cut(strings.TrimSpace(line), "/"); len(path) > len(there) {
			there = path
		}
	}
	for name, scope := range map[string]string{"elsewhere": "unitward-none.scope", "there": there} {
		t.Run(name, func(t *testing.T) {
			c := shell("exit 5")
			c.Scope = scope
			r, err := subreaper(t).Fork(c)
			if err != nil {
				t.Fatal(err)
			}
			// As the kernel does for a keeper that was killed.
			if err := unix.Shutdown(r.control, unix.SHUT_RDWR); err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool {
				_, err := os.Lstat(fmt.Sprintf("/proc/%d/fd/%d", r.PID(), slotControl))
				return err != nil
			})
			r.gate.Close()
			if name == "elsewhere" {
				waitFor(t, func() bool { return sleeps(r.MainPID()) })
				if err := unix.Kill(r.PID(), unix.SIGTERM); err != nil {
					t.Fatal(err)
				}
			}
			childless(t, r)
		})
	}
}
