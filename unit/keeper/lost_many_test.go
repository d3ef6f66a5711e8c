package keeper

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
