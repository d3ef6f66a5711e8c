package keeper

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// exhausted leaves this process some free descriptors.
func exhausted(t *testing.T, free int) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	var held []int
	for range free + 1 { // the numbers below are all taken
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, fd)
	}
	less := old
	less.Cur = uint64(held[free])
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &less); err != nil {
		t.Fatal(err)
	}
	for _, fd := range held {
		unix.Close(fd)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Fatal(err)
		}
	}
}

// What cannot be read of a process, here for want of descriptors, does not make it
// one that is not there.
func TestUnreadableChildren(t *testing.T) {
	s := subreaper(t)
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer cmd.Wait()
	defer cmd.Process.Kill()

	restore := exhausted(t, 0)
	own.mu.Lock()
	adopted := s.adopted(pid)
	own.mu.Unlock()
	restore()
	if !adopted {
		t.Error("one that came to us counts as gone")
	}

	restore = exhausted(t, 1) // for /proc itself
	mine, err := childrenByParent(os.Getpid())
	others, err2 := childrenByParent(pid)
	restore()
	found := false
	for _, child := range mine {
		found = found || child == pid
	}
	if err != nil || !found {
		t.Errorf("our children are %v, %v", mine, err)
	}
	if !errors.Is(err2, unix.EMFILE) {
		t.Errorf("those of another are %v, %v", others, err2)
	}
}

// What /proc hides from the keeper, as it can what another may not trace, is waited for
// all the same.
func TestReaperKilledAboveAHiddenProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root: it mounts /proc")
	}
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	// Nobody traces a program that he cannot read.
	modes := map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o755, dir + "/keeper": 0o755, dir + "/sleep": 0o711}
	for from, to := range map[string]string{os.Args[0]: "keeper", sleep: "sleep"} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range modes {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := self("keep", "")
	hidden := "mount --make-rprivate / && mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups " + dir + "/keeper"
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", hidden}
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	k := keepIn(t, cmd, "exec "+dir+"/sleep 1000", "HANGUP=stay").ready(t)
	waitFor(t, func() bool {
		b, _ := os.ReadFile(procFile(k.main, "comm"))
		return string(b) == "sleep\n"
	})
	if err := unix.Kill(k.reaper, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { p, err := readStat(k.main); return err == nil && p.parent != k.reaper })
	if err := unix.Kill(k.main, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// It ends with the status of its main process, once it knows that.
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 255 {
		t.Errorf("the keeper ended with %v", err)
	}
}
