package keeper

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Die ends this process by a signal, whatever it does with that signal, and
// without a core. It returns when the signal ends nobody.
func Die(sig unix.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Not os/signal, whose Reset leaves what was ignored ignored.
	action, mask := sigaction{}, ^(sigset(1) << (sig - 1))
	syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
	rawMask(&mask, nil)
	// To this very thread: it is ended before the call returns.
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), sig)
}
