package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a process that takes no signal was sent is seen to be pending.
func TestPending(t *testing.T) {
	// A stopped process takes none but KILL and CONT.
	c := exec.Command("sleep", "1242")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	pid := c.Process.Pid
	if err := c.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if s, err := Root.Stat(pid); err == nil && s.State == 'T' {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not stop")
		}
	}
	if got, err := Root.Pending(pid); err != nil || got != 0 {
		t.Fatalf("before a signal %x are pending, %v", got, err)
	}
	for _, n := range []unix.Signal{unix.SIGUSR1, unix.SIGTERM} {
		if err := c.Process.Signal(n); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Root.Pending(pid); err != nil || got != 1<<(unix.SIGUSR1-1)|1<<(unix.SIGTERM-1) {
		t.Errorf("%x are pending, %v", got, err)
	}
	c.Process.Kill()
	c.Wait()
	if _, err := Root.Pending(pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a process that is gone: %v", err)
	}
}

func FuzzPending(f *testing.F) {
	for _, s := range []string{"", "ShdPnd:\t0000000000000200\n", "Name:\tShdPnd:\nShdPnd:\tx\n", "ShdPnd:", "ShdPnd:\t10000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParsePending("Name:\tx\n" + fmt.Sprintf("ShdPnd:\t%016x\n", len(s)) + s)
		if err != nil || n != uint64(len(s)) {
			t.Errorf("%x, %v", n, err)
		}
		_, _ = ParsePending(s)
	})
}
