package proc

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/verify"
)

// What carries the mark, is young enough and is in another cgroup has left.
func TestLeft(t *testing.T) {
	self, err := Root.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	here, err := self.Cgroup()
	if err != nil || here == "" {
		t.Skipf("cgroup: none is mounted: %v", err)
	}
	const mark = "UNITWARD_TEST_MARK=left"
	cmd := exec.Command("sleep", "600")
	cmd.Env = append(os.Environ(), mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	// Start returns before the kernel has put the environment in its place.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid)); strings.Contains(string(b), mark) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("its environment is not to be seen")
		}
	}
	s, err := Root.Stat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	const another = "/no/such/cgroup"
	has := func(ms []verify.Member) bool {
		for _, m := range ms {
			if m.PID == s.PID && m.Cgroup == here {
				return true
			}
		}
		return false
	}
	for _, c := range []struct {
		name   string
		mark   Mark
		within time.Duration
		want   bool
	}{
		{"in another cgroup", Mark{mark, s.StartTime, another, s.PID}, time.Minute, true},
		{"after others", Mark{mark, s.StartTime, another, s.PID + 1}, time.Minute, true},
		{"in its own", Mark{mark, s.StartTime, here, 1}, time.Minute, false},
		{"below its own", Mark{mark, s.StartTime, "/", s.PID}, time.Minute, false},
		{"older than the job", Mark{mark, s.StartTime + 1, another, s.PID}, time.Minute, false},
		{"another's mark", Mark{mark + "x", s.StartTime, another, s.PID}, time.Minute, false},
		{"no time", Mark{mark, s.StartTime, another, s.PID}, 0, false},
	} {
		if got := Root.Left(c.mark, c.within); has(got) != c.want {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	if m, ok := Root.Outside(s.PID, another); !ok || m.Cgroup != here || m.PID != s.PID {
		t.Errorf("it is not outside: %+v, %v", m, ok)
	}
	if m, ok := Root.Outside(s.PID, here); ok {
		t.Errorf("it is outside: %+v", m)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if m, ok := Root.Outside(s.PID, another); ok {
		t.Errorf("it has ended: %+v", m)
	}
}
