package keeper

import (
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever was done with a signal, Die ends the process by it.
func TestDie(t *testing.T) {
	if n, err := strconv.Atoi(os.Getenv("UNITWARD_TEST_DIE")); err == nil {
		signal.Ignore(unix.Signal(n))
		Die(unix.Signal(n))
		os.Exit(1)
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGHUP, unix.SIGPIPE, unix.SIGSEGV, unix.SIGABRT, unix.Signal(40)} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDie$")
		cmd.Env = append(os.Environ(), "UNITWARD_TEST_DIE="+strconv.Itoa(int(sig)))
		_ = cmd.Run()
		status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != sig || status.CoreDump() {
			t.Errorf("%v: %v", sig, cmd.ProcessState)
		}
	}
}
