package keeper

import (
	"os"
	"os/exec"
	"testing"
)

func TestExecuted(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Start returns when the kernel closes its pipe, a little before the new
	// program has its command line.
	waitFor(t, func() bool { return Executed(cmd.Process.Pid) })
	cmd.Process.Kill()
	cmd.Wait()
	if Executed(cmd.Process.Pid) || Executed(0) {
		t.Error("a process that is gone is seen")
	}
	if parent, err := parentPID(os.Getpid()); err != nil || parent != os.Getppid() {
		t.Errorf("the parent is %d, %v; want %d", parent, err, os.Getppid())
	}
}
