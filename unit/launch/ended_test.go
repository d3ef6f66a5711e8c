package launch

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// A process that has ended is gone before anybody waits for it.
func TestEnded(t *testing.T) {
	start, err := keeper.StartTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if Ended(unit.Process{PID: os.Getpid(), StartTime: start}) {
		t.Error("we are gone")
	}
	if !Ended(unit.Process{PID: os.Getpid(), StartTime: start + 1}) {
		t.Error("another process of our number is there")
	}
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := unit.Process{PID: cmd.Process.Pid}
	if p.StartTime, err = keeper.StartTime(p.PID); err != nil || Ended(p) {
		t.Errorf("%+v: gone, %v", p, err)
	}
	cmd.Process.Kill()
	for deadline := time.Now().Add(time.Minute); !Ended(p); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a zombie is not gone")
		}
	}
	cmd.Wait()
	if !Ended(p) {
		t.Error("it is there again")
	}
}
