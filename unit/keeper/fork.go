package keeper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What runs in a reaper and in a main process before its exec is a copy of one
// thread, inside a runtime that has lost its other threads and soon its heap:
// no Go code may run there that could grow a stack, allocate, be scheduled or
// write a pointer under a barrier. Hence nosplit functions that take numbers
// and the orders, and nothing but raw system calls.

// forkReaper returns only in the parent.
//
//go:noinline
//go:nosplit
//go:norace
func forkReaper(o *orders) (uintptr, syscall.Errno) {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	reap(o)
	return 0, 0
}

// forkMain makes the main process, in its cgroup when into is true. It returns
// only in the reaper.
//
//go:noinline
//go:nosplit
//go:norace
func forkMain(o *orders, into bool) (uintptr, syscall.Errno) {
	var pid uintptr
	var errno syscall.Errno
	if into {
		o.clone.flags, o.clone.exitSignal, o.clone.cgroup = unix.CLONE_INTO_CGROUP, uint64(unix.SIGCHLD), slotCgroup
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&o.clone)), unsafe.Sizeof(o.clone), 0, 0, 0, 0)
	} else {
		pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	}
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	becomeMain(o, into)
	return 0, 0
}

// arrange puts every descriptor of the orders to its own number and closes all
// others.
//
//go:nosplit
//go:norace
func arrange(o *orders) syscall.Errno {
	for i := range uintptr(slots) {
		if fd := o.fds[i]; fd >= 0 {
			n, _, errno := syscall.RawSyscall6(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, firstSpare, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			o.fds[i] = int32(n)
		}
	}
	for i := range uintptr(slots) {
		if fd := o.fds[i]; fd >= 0 {
			flags := uintptr(unix.O_CLOEXEC)
			if i <= slotErr {
				flags = 0
			}
			if _, _, errno := syscall.RawSyscall6(unix.SYS_DUP3, uintptr(fd), i, flags, 0, 0, 0); errno != 0 {
				return errno
			}
		} else {
			closeFD(i)
		}
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, slots, uintptr(^uint32(0)), 0, 0, 0, 0)
	if errno != 0 {
		// Before Linux 5.9, or a filter of system calls that is older.
		_, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, rlimitNofile, 0, uintptr(unsafe.Pointer(&o.limit)), 0, 0)
		if errno != 0 || o.limit.Soft > maxClosed {
			o.limit.Soft = maxClosed
		}
		for fd := uintptr(slots); fd < uintptr(o.limit.Soft); fd++ {
			closeFD(fd)
		}
	}
	return 0
}

// maxClosed bounds the descriptors that are closed one by one.
const maxClosed = 1 << 16

//go:nosplit
//go:norace
func closeFD(fd uintptr) { syscall.RawSyscall6(unix.SYS_CLOSE, fd, 0, 0, 0, 0, 0) }

// dropHeap gives the heap back, but for the pages around the stack it stands
// on. Its functions never return above them.
//
//go:nosplit
//go:norace
func dropHeap(o *orders) {
	var here byte
	// What nosplit functions may use below this frame, and what is in use
	// above it, are less than 1 KiB each.
	low := (uintptr(unsafe.Pointer(&here)) - stackUse) &^ o.pageMask
	high := (uintptr(unsafe.Pointer(&here)) + stackUse + o.pageMask) &^ o.pageMask
	for i := 0; i < o.heaped; i++ {
		from, to := o.heap[i&(len(o.heap)-1)].from, o.heap[i&(len(o.heap)-1)].to
		if to <= low || from >= high {
			dropPages(from, to)
			continue
		}
		dropPages(from, low)
		dropPages(high, to)
	}
}

// stackUse is more than the stack that is in use on either side of a frame.
const stackUse = 2048

//go:nosplit
//go:norace
func dropPages(from, to uintptr) {
	if from < to {
		syscall.RawSyscall6(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED, 0, 0, 0)
	}
}

//go:nosplit
//go:norace
func exit(status uintptr) {
	for {
		syscall.RawSyscall6(unix.SYS_EXIT_GROUP, status, 0, 0, 0, 0, 0)
	}
}
