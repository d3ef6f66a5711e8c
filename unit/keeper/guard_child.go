package keeper

import (
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

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
	// maker is a pipe that hangs up when the guard's maker ends; -1 is none.
	maker int
	// holds is a descriptor that the guard keeps open until it ends, or lets a
	// cgroup tell when; -1 is none.
	holds int
	// keeps is true for a guard that reads, when fd tells of something, what
	// Keep has to say.
	keeps bool
	scopeWait
	// files are to be removed.
	files [16]guardFile
	stack [16 << 10]byte
}

// scopeWait is what a process waits for that will be put into a scope.
type scopeWait struct {
	// expects is the length of the scope's name; 0 is none. The name is written first.
	expects uint32
	// sent is 1 once the manager was asked for it.
	sent  uint32
	scope [maxName + 1]byte
	path  [maxPath]byte // room to read a file, or its name
}

// expect is for before sent.
func (w *scopeWait) expect(scope string) {
	if n := copy(w.scope[:], scope); n == len(scope) {
		atomic.StoreUint32(&w.expects, uint32(n))
	}
}

// guardFile is the name of a file, which ends with a zero byte, once noted is 1.
type guardFile struct {
	noted uint32
	name  [252]byte
}

//go:nosplit
//go:norace
func rawMask(set, old *sigset) {
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), sigsetSize, 0, 0)
}

// guard is the child. It holds no descriptor but those it was given, has a session of
// its own and obeys SIGTERM, so that a stop of its scope ends it.
//
//go:nosplit
//go:norace
func guard(area *guardArea) {
	fd, path := area.fd, &area.path
	closeOthers([3]int{int(fd), area.maker, area.holds})
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	name := [16]byte{'u', 'n', 'i', 't', 'w', 'a', 'r', 'd', '-', 'g', 'u', 'a', 'r', 'd'}
	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0)
	action := sigaction{}
	syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTERM), uintptr(unsafe.Pointer(&action)), 0, sigsetSize, 0, 0)
	mask := allSignals &^ sigTerm
	rawMask(&mask, nil)
	if area.maker < 0 || made(area) {
		await(fd, unix.POLLIN, nil)
	}
	for i := range area.files {
		if f := &area.files[i]; atomic.LoadUint32(&f.noted) != 0 {
			at := unix.AT_FDCWD
			syscall.RawSyscall(unix.SYS_UNLINKAT, uintptr(at), uintptr(unsafe.Pointer(&f.name)), 0)
		}
	}
	if area.keeps {
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(path)), maxPath-1)
		if errno == 0 && n > 0 {
			if area.holds >= 0 {
				syscall.RawSyscall(unix.SYS_CLOSE, uintptr(area.holds), 0, 0)
			}
			awaitEmpty(path)
		}
	}
	awaitScope(&area.scopeWait)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// closeOthers closes every descriptor that is not among those kept, of which negative
// ones are none.
//
//go:nosplit
//go:norace
func closeOthers(kept [3]int) {
	from := 0
	for range kept {
		next := -1
		for _, fd := range kept {
			if fd >= from && (next < 0 || fd < next) {
				next = fd
			}
		}
		if next < 0 {
			break
		}
		if next > from {
			syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(from), uintptr(next-1), 0)
		}
		from = next + 1
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(from), uintptr(^uint32(0)), 0)
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

// made waits until the maker of a guard that watches a process has asked for the
// guard's scope, or until that process ends. It is false when the maker ended
// before, and no scope came.
//
//go:nosplit
//go:norace
func made(area *guardArea) bool {
	poll := [2]unix.PollFd{{Fd: int32(area.maker), Events: unix.POLLIN}, {Fd: int32(area.fd), Events: unix.POLLIN}}
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&poll)), 2, 0, 0, 0, 0)
		if errno != unix.EINTR {
			break
		}
	}
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(area.maker), 0, 0)
	return poll[1].Revents != 0 || atomic.LoadUint32(&area.sent) != 0 || awaitScope(&area.scopeWait)
}

// awaitScope waits until this process is in the scope that it expects. It is false
// when it expects none, or none comes.
//
//go:nosplit
//go:norace
func awaitScope(w *scopeWait) bool {
	at := unix.AT_FDCWD
	const tries, unsentTries, pause = 3000, 150, 20_000_000 // a minute, and three seconds
	for i := range tries {
		if i >= unsentTries && atomic.LoadUint32(&w.sent) == 0 {
			return false
		}
		length := uintptr(atomic.LoadUint32(&w.expects))
		if length == 0 {
			return false
		}
		self := [18]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'c', 'g', 'r', 'o', 'u', 'p'}
		fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&self)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno != 0 {
			return false // it will never know
		}
		n, _, errno := syscall.RawSyscall6(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&w.path)), maxPath, 0, 0, 0)
		closeFD(fd)
		if errno != 0 || contains(&w.path, n, &w.scope, length) {
			return errno == 0
		}
		most := unix.Timespec{Nsec: pause}
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&most)), 0, 0, 0)
	}
	return false
}

// contains is bytes.Contains for what must not call it.
//
//go:nosplit
//go:norace
func contains(text *[maxPath]byte, n uintptr, name *[maxName + 1]byte, length uintptr) bool {
	for i := uintptr(0); i+length <= n && n <= maxPath; i++ {
		j := uintptr(0)
		for j < length && j < uintptr(len(name)) && text[(i+j)&(maxPath-1)] == name[j] {
			j++
		}
		if j == length {
			return true
		}
	}
	return false
}

// awaitEmpty waits for "populated 0" in the cgroup.events file at path, which
// ends with a zero byte, or for its removal; for that alone when it is another file
// of a cgroup.
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
		if errno != 0 || n == 0 || path[0] == 'p' && (n <= populatedAt || path[populatedAt] == '0') {
			return
		}
		// The kernel holds a change back for 10 ms when there was one just
		// before, and forgets it when the cgroup is removed meanwhile
		// (cgroup_file_notify(), css_clear_dir()): so it looks again by itself.
		again := unix.Timespec{Sec: 1}
		await(fd, unix.POLLPRI, &again)
	}
}
