package keeper

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestGuardSelfEndsAtClose(t *testing.T) {
	g, err := GuardSelf()
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return guardName(g.PID) })
	if err := g.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if err := unix.Kill(g.PID, 0); err != unix.ESRCH {
		t.Errorf("the guard %d is still there: %v", g.PID, err)
	}
	if g.Early() {
		t.Error("it has ended before it was to")
	}
}

func TestGuardThatWasKilledIsEarly(t *testing.T) {
	g, err := GuardSelf()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(g.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, g.Ended)
	g.Release()
	if err := g.Close(); err != nil || !g.Early() {
		t.Errorf("Close: %v, early %v", err, g.Early())
	}
}

func TestGuardHoldsOnlyItsDescriptor(t *testing.T) {
	g, err := GuardSelf()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	waitFor(t, func() bool { return guardName(g.PID) })
	fds, err := os.ReadDir("/proc/" + strconv.Itoa(g.PID) + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	if len(fds) != 1 {
		t.Errorf("the guard holds %d descriptors, want 1", len(fds))
	}
}

func TestGuardObeysTerm(t *testing.T) {
	g, err := GuardSelf()
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return guardName(g.PID) })
	if err := unix.Kill(g.PID, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(g.PID, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	if !status.Signaled() || status.Signal() != unix.SIGTERM {
		t.Errorf("status %v, want death by SIGTERM", status)
	}
	g.pipe.Close()
}

func TestGuardProcessEndsWithTheProcess(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	g, err := GuardProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(g.PID, 0); err != nil {
		t.Fatalf("Close ended a guard of a process: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	leavesNothing(t, g)
}

// leavesNothing waits until a guard has ended and nothing is left of it, though nobody
// asks for it any more.
func leavesNothing(t *testing.T, g *Guard) {
	t.Helper()
	waitFor(t, func() bool {
		g.files.Lock()
		defer g.files.Unlock()
		own.mu.Lock()
		defer own.mu.Unlock()
		return unix.Kill(g.PID, 0) == unix.ESRCH && g.area == nil && !own.has(g.PID)
	})
}

// guardKept is a guard that watches a cgroup, of which file tells; no events are no
// file.
func guardKept(t *testing.T, events string) (g *Guard, file string) {
	t.Helper()
	file = t.TempDir() + "/cgroup.events"
	if events != "" {
		if err := os.WriteFile(file, []byte(events), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := GuardSelf()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Keep(file); err != nil {
		t.Fatal(err)
	}
	return g, file
}

func TestGuardKeptIsReaped(t *testing.T) {
	g, file := guardKept(t, "populated 1\nfrozen 0\n")
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(g.PID, 0); err != nil {
		t.Fatalf("Close ended a guard that was kept: %v", err)
	}
	if err := os.WriteFile(file, []byte("populated 0\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	leavesNothing(t, g)
}

func TestGuardKeptEndsWithTheCgroup(t *testing.T) {
	for name, events := range map[string]string{"empty": "populated 0\nfrozen 0\n", "gone": ""} {
		t.Run(name, func(t *testing.T) {
			g, _ := guardKept(t, events)
			var status unix.WaitStatus
			if _, err := unix.Wait4(g.PID, &status, 0, nil); err != nil || !status.Exited() {
				t.Errorf("wait: %v, status %v, want an exit", err, status)
			}
		})
	}
}

func TestGuardKeptOutlivesThePipe(t *testing.T) {
	g, _ := guardKept(t, "populated 1\nfrozen 0\n")
	// It holds the pipe and the file once it watches.
	waitFor(t, func() bool {
		fds, _ := os.ReadDir("/proc/" + strconv.Itoa(g.PID) + "/fd")
		return len(fds) == 2
	})
	if err := unix.Kill(g.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := g.reap(); err != nil {
		t.Fatal(err)
	}
}

// Its maker dies between the request and the scope: the guard is what the scope
// is to be made of, so it stays until then.
func TestGuardStaysUntilItIsWhereItIsExpected(t *testing.T) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for name, scope := range map[string]string{
		"elsewhere": "unitward-guard-00000000000000000000000000000000.scope",
		"there":     strings.TrimSpace(string(own[max(0, len(own)-20):])),
	} {
		t.Run(name, func(t *testing.T) {
			g, err := GuardSelf()
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return guardName(g.PID) })
			g.Expect(scope)
			g.pipe.Close() // as the kernel does for a maker that was killed
			if name == "elsewhere" {
				waitFor(t, func() bool { return sleeps(g.PID) })
				g.Release()
			}
			var status unix.WaitStatus
			if _, err := unix.Wait4(g.PID, &status, 0, nil); err != nil || !status.Exited() {
				t.Errorf("wait: %v, status %v, want an exit", err, status)
			}
		})
	}
}

// What its maker wrote for the job's start goes with the maker, but for what that was
// taken for; and the connection that the scope was asked for at stands until then.
func TestGuardLeavesNothingOfItsMaker(t *testing.T) {
	dir := t.TempDir()
	handed, taken, long := dir+"/handed", dir+"/taken", dir+"/"+strings.Repeat("x", 250)
	for _, file := range []string{handed, taken, long} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ends[0])
	g, err := GuardConnection(ends[1])
	unix.Close(ends[1])
	if err != nil {
		t.Fatal(err)
	}
	g.Removes(taken, long)()
	forget := g.Removes(long, handed)
	g.Expect("unitward-guard-00000000000000000000000000000000.scope")
	hungUp := func(within int) bool {
		n, _ := unix.Poll([]unix.PollFd{{Fd: int32(ends[0]), Events: unix.POLLIN}}, within)
		return n > 0
	}
	g.pipe.Close() // as the kernel does for a maker that was killed
	waitFor(t, func() bool { _, err := os.Lstat(handed); return err != nil })
	if hungUp(0) {
		t.Error("the connection is closed before the scope is there")
	}
	for _, file := range []string{taken, long} {
		if _, err := os.Lstat(file); err != nil {
			t.Error(err)
		}
	}
	g.Release()
	if err := g.reap(); err != nil || !hungUp(5000) {
		t.Errorf("the connection stands after the guard's end: %v", err)
	}
	forget()
	g.Removes(taken)()
}

// Its maker dies before it has asked for the scope: nobody ever will, and the guard
// does not wait for it as long as for one that is under way.
func TestGuardEndsWhereNobodyAskedForItsScope(t *testing.T) {
	for name, c := range map[string]struct {
		make    func() (*Guard, error)
		expects bool
	}{
		"self":                {GuardSelf, true},
		"process, at once":    {func() (*Guard, error) { return GuardProcess(os.Getpid()) }, false},
		"process, in sending": {func() (*Guard, error) { return GuardProcess(os.Getpid()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := c.make()
			if err != nil {
				t.Fatal(err)
			}
			waitFor(t, func() bool { return guardName(g.PID) })
			if c.expects {
				g.Expect("unitward-guard-00000000000000000000000000000000.scope")
			}
			g.part()
			if g.pipe != nil {
				g.pipe.Close() // as the kernel does for a maker that was killed
			}
			ended := make(chan error, 1)
			go func() { ended <- g.reap() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Errorf("guard %d stays", g.PID)
				unix.Kill(g.PID, unix.SIGKILL)
			}
		})
	}
}

// Once it was sent, a guard of a process goes on without its maker.
func TestGuardProcessOutlivesItsMaker(t *testing.T) {
	g, err := GuardProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return guardName(g.PID) })
	g.Expect("unitward-guard-00000000000000000000000000000000.scope")
	g.Sent()
	// It has let go of its maker, and watches the process alone.
	waitFor(t, func() bool {
		fds, _ := os.ReadDir("/proc/" + strconv.Itoa(g.PID) + "/fd")
		return len(fds) == 1
	})
	if err := unix.Kill(g.PID, 0); err != nil {
		t.Errorf("the guard is gone: %v", err)
	}
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
}

// sleeps is true for a guard whose pipe was closed and that waits for the time
// to look again: it polls no descriptor.
func sleeps(pid int) bool {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/syscall")
	f := strings.Fields(string(b))
	return len(f) > 2 && f[0] == strconv.Itoa(unix.SYS_PPOLL) && f[2] == "0x0"
}

// A last change that nobody is told of: the guard looks again by itself.
func TestGuardKeptNoticesWhatItIsNotToldOf(t *testing.T) {
	file := t.TempDir() + "/cgroup.events"
	if err := os.WriteFile(file, []byte("populated 1\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := GuardSelf()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Keep(file); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		fds, _ := os.ReadDir("/proc/" + strconv.Itoa(g.PID) + "/fd")
		return len(fds) == 2
	})
	// A plain file never wakes poll(2) with POLLPRI.
	if err := os.WriteFile(file, []byte("populated 0\nfrozen 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(g.PID, &status, 0, nil); err != nil || !status.Exited() {
		t.Errorf("wait: %v, status %v, want an exit", err, status)
	}
}

func TestGuardOfAProcessCannotBeKept(t *testing.T) {
	g, err := GuardProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer g.Kill()
	if err := g.Keep("/nowhere"); err == nil {
		t.Error("Keep of a guard that watches a process")
	}
}

func TestGuardProcessOfNobody(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if g, err := GuardProcess(cmd.Process.Pid); err == nil {
		g.Kill()
		t.Error("a guard for a process that has ended")
	}
}

// Many guards under load of the garbage collector and of preemption: the
// child must never run a part of the Go runtime.
func TestGuardsUnderLoad(t *testing.T) {
	stop := make(chan struct{})
	for range 4 {
		go func() {
			var keep [][]byte
			for {
				select {
				case <-stop:
					return
				default:
					keep = append(keep[:len(keep)%64], make([]byte, 16<<10))
				}
			}
		}()
	}
	defer close(stop)
	for range 200 {
		g, err := GuardSelf()
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func guardName(pid int) bool {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if strings.TrimSpace(string(b)) != "unitward-guard" {
		return false
	}
	// It is done when SIGTERM is no longer blocked.
	s, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return strings.Contains(string(s), "SigBlk:\tfffffffffffbbeff")
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("the condition does not come true")
		}
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkGuard(b *testing.B) {
	for b.Loop() {
		g, err := GuardSelf()
		if err != nil {
			b.Fatal(err)
		}
		g.Close()
	}
}
