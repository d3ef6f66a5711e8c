package launch

import (
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// That no descriptor is to be had says nothing of the owner.
func TestWatchProcessWithoutDescriptors(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	start, err := keeper.StartTime(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	ended, stop := watchProcess(unit.Process{PID: cmd.Process.Pid, StartTime: start})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer stop()
	select {
	case <-ended:
		t.Fatal("an owner that lives is taken for gone")
	case <-time.After(2 * tick): // two looks at it
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
}

func TestWatchProcessThatIsGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	ended, stop := watchProcess(unit.Process{PID: cmd.Process.Pid, StartTime: 1})
	defer stop()
	<-ended
}
