package launch

import (
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A stop can come before there is a process of the command.
func TestEarlySignalReachesTheCommand(t *testing.T) {
	got := catchTended()
	defer signal.Reset()
	if err := unix.Kill(unix.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(got) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the signal was not taken")
		}
	}
	late := exec.Command("sleep", "1000")
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	if err := passEarly(got, late.Process.Pid); err != nil {
		t.Error(err)
		late.Process.Kill()
	}
	_ = late.Wait()
	if ws := late.ProcessState.Sys().(syscall.WaitStatus); ws.Signal() != unix.SIGTERM {
		t.Errorf("it ended by %v", ws.Signal())
	}
	if err := passEarly(got, late.Process.Pid); err != nil {
		t.Errorf("with nothing to pass: %v", err)
	}
}
