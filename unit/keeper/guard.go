package keeper

import (
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Guard is a process that ends when what it watches has ended. systemd stops
// a job that is bound to the scope which holds its guard, also when everything
// else of unitward was killed.
//
// It is a clone of this process without an exec, in the same memory, as
// vfork(2) makes it: it costs a tenth of a start of the program, and runs
// nothing but system calls, on a stack of its own. The caller itself stays
// in the cgroup it was called in, so that whoever may end that cgroup ends the
// caller, and with it the job.
type Guard struct {
	// PID is the guard's process.
	PID int
	// pipe is the end whose closing ends the guard; nil when it watches a
	// process.
	pipe *os.File
	// mem is the guard's memory, which is also ours, and area what stands in it.
	mem  []byte
	area *guardArea
}

// GuardSelf starts a guard that ends with this process, or at Close.
func GuardSelf() (*Guard, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make the guard's pipe: %w", err)
	}
	defer r.Close()
	g, err := cloneGuard(int(r.Fd()), true)
	if err != nil {
		w.Close()
		return nil, err
	}
	g.pipe = w
	return g, nil
}

// GuardProcess starts a guard that ends with the process pid, which need not
// be a child of ours. It outlives its maker: whoever puts it into a scope has
// the scope end with the job. It fails with ESRCH when there is no such process.
func GuardProcess(pid int) (*Guard, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot watch process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	return cloneGuard(fd, false)
}

// GuardCgroup starts a guard that ends when a cgroup has no process left or is gone.
// events is the path of its cgroup.events file. Like one of GuardProcess it
// outlives its maker.
func GuardCgroup(events string) (*Guard, error) {
	g, err := GuardSelf()
	if err != nil {
		return nil, err
	}
	if err := g.Keep(events); err != nil {
		_ = g.Close()
		return nil, err
	}
	g.pipe = nil
	return g, nil
}

// Keep tells a guard of GuardSelf to outlive this process, and to end when a
// cgroup has no process left or is gone. events is the path of its
// cgroup.events file.
func (g *Guard) Keep(events string) error {
	if g.pipe == nil || len(events) >= maxPath {
		return fmt.Errorf("cannot keep guard %d: it watches a process, or %q is too long", g.PID, events)
	}
	_, err := g.pipe.WriteString(events)
	if cerr := g.pipe.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("cannot keep guard %d: %w", g.PID, err)
	}
	return nil
}

// Expect tells the guard that a manager is about to be asked to put it into
// scope, a unit's name. When what it watches ends before that has come about,
// the guard goes on until it has, at most for a minute: a scope that is given a
// process which has just ended comes up empty, and stays (seen with systemd
// 247 and 252). The scope's name may have up to 127 bytes.
func (g *Guard) Expect(scope string) {
	if n := copy(g.area.scope[:], scope); n == len(scope) {
		atomic.StoreUint32(&g.area.expects, uint32(n))
	}
}

// Close ends a guard of GuardSelf and reaps it. A guard of GuardProcess is
// left alone: it outlives its maker on purpose.
func (g *Guard) Close() error {
	if g.pipe == nil {
		return nil
	}
	g.Release()
	return g.reap()
}

// Release tells a guard of GuardSelf to end, without waiting for it; Close
// waits. It can be called again.
func (g *Guard) Release() {
	if g.pipe != nil {
		atomic.StoreUint32(&g.area.expects, 0)
		g.pipe.Close()
	}
}

// Kill ends any guard at once and reaps it, for a start that failed.
func (g *Guard) Kill() error {
	if g.pipe != nil {
		return g.Close()
	}
	if err := unix.Kill(g.PID, unix.SIGKILL); err != nil {
		return err
	}
	return g.reap()
}

// Ended reports whether a guard has ended that was not reaped. For one that was
// it is true as well.
func (g *Guard) Ended() bool {
	var info siginfo
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(g.PID), uintptr(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, 0, 0)
		if errno != unix.EINTR {
			return errno != 0 || info.pid != 0
		}
	}
}

func (g *Guard) reap() error {
	for {
		switch _, err := unix.Wait4(g.PID, nil, 0, nil); err {
		case unix.EINTR:
		case nil:
			return unix.Munmap(g.mem) // nobody runs in it any more
		default:
			return err
		}
	}
}

// sigset is the kernel's signal set: one bit for each signal, the lowest for
// signal 1.
type sigset uint64

// sigaction is the kernel's struct sigaction on amd64 and arm64, zero being
// SIG_DFL.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     sigset
}

const (
	sigsetSize = unsafe.Sizeof(sigset(0))
	allSignals = ^sigset(0)
	sigTerm    = sigset(1) << (unix.SIGTERM - 1)

	// maxPath is the kernel's PATH_MAX.
	maxPath = 4096

	// populatedAt is where cgroup.events, which begins with "populated 0" or
	// "populated 1", has the digit (kernel/cgroup/cgroup.c).
	populatedAt = uintptr(len("populated "))
)

// guardArea is what a guard works in. It is no part of Go's heap, which moves
// on without knowing of the guard.
type guardArea struct {
	fd uintptr
	// keeps is true for a guard that reads, when fd tells of something, what
	// Keep has to say.
	keeps bool
	// expects is the length of the name of a scope that the guard will be put
	// into; 0 is none. The name is written first.
	expects uint32
	scope   [128]byte
	path    [maxPath]byte
	stack   [16 << 10]byte
}

// cloneGuard makes a child that waits for fd to become readable or hung up,
// and then exits.
//
// The child is in our memory and shares nothing else: no other process need
// copy a page of it, which after a fork was most of the cost. What it runs
// must not look for its goroutine, grow a stack or allocate, and no signal
// handler of Go's runtime may run in it: the signals are blocked beforehand,
// and the child never leaves guard.
func cloneGuard(fd int, keeps bool) (*Guard, error) {
	mem, err := unix.Mmap(-1, 0, int(unsafe.Sizeof(guardArea{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("cannot get memory for the guard: %w", err)
	}
	area := (*guardArea)(unsafe.Pointer(&mem[0]))
	area.fd, area.keeps = uintptr(fd), keeps
	top := (uintptr(unsafe.Pointer(&area.stack)) + unsafe.Sizeof(area.stack)) &^ 15
	entry := guard
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	blocked, old := allSignals, sigset(0)
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	rawMask(&blocked, &old)
	pid := cloneOnto(unix.CLONE_VM|uintptr(unix.SIGCHLD), top, **(**uintptr)(unsafe.Pointer(&entry)), uintptr(unsafe.Pointer(area)))
	rawMask(&old, nil)
	if pid < 0 {
		_ = unix.Munmap(mem)
		return nil, fmt.Errorf("cannot clone the guard: %w", syscall.Errno(-pid))
	}
	return &Guard{PID: int(pid), mem: mem, area: area}, nil
}

//go:nosplit
//go:norace
func rawMask(set, old *sigset) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), sigsetSize, 0, 0)
}

// guard is the child. It holds no descriptor but fd, has a session of its own
// and obeys SIGTERM, so that a stop of its scope ends it.
//
//go:nosplit
//go:norace
func guard(area *guardArea) {
	fd, path := area.fd, &area.path
	if fd > 0 {
		syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, fd-1, 0)
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, fd+1, uintptr(^uint32(0)), 0)
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	name := [16]byte{'u', 'n', 'i', 't', 'w', 'a', 'r', 'd', '-', 'g', 'u', 'a', 'r', 'd'}
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0)
	action := sigaction{}
	syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTERM), uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
	mask := allSignals &^ sigTerm
	rawMask(&mask, nil)
	await(fd, unix.POLLIN, nil)
	if area.keeps {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(path)), maxPath-1)
		if errno == 0 && n > 0 {
			awaitEmpty(path)
		}
	}
	awaitScope(area)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

//go:nosplit
//go:norace
func await(fd uintptr, event int16, most *unix.Timespec) {
	poll := unix.PollFd{Fd: int32(fd), Events: event}
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(most)), 0, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}

// awaitScope waits until this process is in the scope that it expects.
//
//go:nosplit
//go:norace
func awaitScope(area *guardArea) {
	at := unix.AT_FDCWD
	const tries, pause = 3000, 20_000_000 // a minute
	for range tries {
		length := uintptr(atomic.LoadUint32(&area.expects))
		if length == 0 {
			return
		}
		self := [18]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'c', 'g', 'r', 'o', 'u', 'p'}
		fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&self)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno != 0 {
			return // it will never know
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&area.path)), maxPath)
		syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		if errno != 0 || contains(&area.path, n, &area.scope, length) {
			return
		}
		most := unix.Timespec{Nsec: pause}
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&most)), 0, 0, 0)
	}
}

// contains is bytes.Contains for what must not call it.
//
//go:nosplit
//go:norace
func contains(text *[maxPath]byte, n uintptr, name *[128]byte, length uintptr) bool {
	for i := uintptr(0); i+length <= n && n <= maxPath; i++ {
		j := uintptr(0)
		for j < length && j < uintptr(len(name)) && text[i+j] == name[j] {
			j++
		}
		if j == length {
			return true
		}
	}
	return false
}

// awaitEmpty waits for "populated 0" in the cgroup.events file at path, which
// ends with a zero byte, or for its removal.
//
//go:nosplit
//go:norace
func awaitEmpty(path *[maxPath]byte) {
	at := unix.AT_FDCWD
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(path)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return
	}
	for {
		// The kernel notes what a reader has seen: it wakes for what changes
		// after this read.
		n, _, errno := syscall.RawSyscall6(unix.SYS_PREAD64, fd, uintptr(unsafe.Pointer(path)), maxPath, 0, 0, 0)
		if errno != 0 || n <= populatedAt || path[populatedAt] == '0' {
			return
		}
		// The kernel holds a change back for 10 ms when there was one just
		// before, and forgets it when the cgroup is removed meanwhile
		// (cgroup_file_notify(), css_clear_dir()): so it looks again by itself.
		again := unix.Timespec{Sec: 1}
		await(fd, unix.POLLPRI, &again)
	}
}
