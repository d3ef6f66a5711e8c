package proc

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func TestDescribe(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x", "\xff", "a\nb", strings.Repeat("z", 2*maxCommand))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m, ok := Describe(cmd.Process.Pid)
	// While execve(2) changes the memory over there is no command line.
	for deadline := time.Now().Add(time.Minute); ok && m.Command == "[sh]" && time.Now().Before(deadline); {
		m, ok = Describe(cmd.Process.Pid)
	}
	if !ok || m.PID != cmd.Process.Pid || !strings.HasPrefix(m.Command, "/bin/sh -c read x ? ") || len(m.Command) != maxCommand || !utf8.ValidString(m.Command) || m.MemoryBytes <= 0 || m.AgeMS < 0 || m.AgeMS > 60_000 {
		t.Errorf("describe = %+v, %v", m, ok)
	}
	in.Close()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if m, ok := Describe(cmd.Process.Pid); ok {
		t.Errorf("a zombie is described: %+v", m)
	}
	cmd.Wait()
	if m, ok := Describe(cmd.Process.Pid); ok {
		t.Errorf("a process that is gone is described: %+v", m)
	}
	if m, ok := Describe(2); ok && os.Getpid() != 2 && !strings.HasPrefix(m.Command, "[") && m.MemoryBytes == 0 {
		t.Errorf("a kernel thread is %q", m.Command)
	}
}
