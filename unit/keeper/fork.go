package keeper

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What runs in a reaper and in a main process before its exec is a copy of one
// thread, inside a runtime that has lost its other threads and its heap:
// no Go code may run there that could grow a stack, allocate, be scheduled or
// write a pointer under a barrier. Hence nosplit functions that take numbers
// and the orders, and nothing but raw system calls.

// forkReaper forks the reaper onto a stack of its own, with as little of the
// memory of this process as can be: the copy of its page tables, and of every
// page that either writes to later, would cost more than all the rest, and a
// reaper would keep what its keeper has changed or, once that is gone, all of
// it. So the heap is not passed on: not by this fork and by no later one, as none
// of this program's needs it (what is executed at once shares all until then).
// maps are those of readMaps, now or at an earlier fork.
func forkReaper(o *orders, maps []byte) (pid int, err error) {
	// The child is a copy of this thread alone: no signal handler may run in
	// it. So the signals are blocked before the fork.
	entry := reap
	blocked, old := allSignals, sigset(0)
	gaps, variables := heapGaps(maps, o.all)
	gaps = gaps[:min(len(gaps), len(o.gaps))]
	if hasLoader(maps) {
		gaps, variables = nil, pages{}
	}
	o.gapCount, o.variables = copy(o.gaps[:], gaps), variables
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	advise(gaps, unix.MADV_DONTFORK) // again, for what was mapped since
	// To another fork at the same time these orders were a part of a gap.
	advise([]pages{o.all}, unix.MADV_DOFORK)
	rawMask(&blocked, &old)
	n := cloneOnto(uintptr(unix.SIGCHLD), o.stack.to, **(**uintptr)(unsafe.Pointer(&entry)), uintptr(unsafe.Pointer(o)))
	rawMask(&old, nil)
	if n < 0 {
		return 0, fmt.Errorf("cannot fork the reaper: %w", syscall.Errno(-n))
	}
	return int(n), nil
}

// cloneOnto is clone(2) with the stack that ends at stack in the child, which
// calls the function of one argument at entry and never comes back. It
// returns the kernel's answer: a process, or a negated errno.
//
//go:noescape
func cloneOnto(flags, stack, entry, arg uintptr) (pid int64)

// advise is madvise(2) for what is mapped in each range. What fails changes
// nothing but how large a child is; that not all of a range is mapped does not
// matter (ENOMEM).
func advise(ranges []pages, advice uintptr) {
	for _, p := range ranges {
		syscall.RawSyscall6(unix.SYS_MADVISE, p.from, p.to-p.from, advice, 0, 0, 0)
	}
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

// arrange puts every descriptor of the orders to its own number, those that are
// passed on above them, and closes all others.
//
//go:nosplit
//go:norace
func arrange(o *orders) syscall.Errno {
	spare := firstSpare + uintptr(o.passed)
	for i := range uintptr(slots) {
		if fd := o.fds[i]; fd >= 0 {
			n, _, errno := syscall.RawSyscall6(unix.SYS_FCNTL, uintptr(fd), unix.F_DUPFD_CLOEXEC, firstSpare, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			o.fds[i] = int32(n)
			spare = max(spare, n+1)
		}
	}
	// Out of the way of the slots, and then down from there.
	for i := range uintptr(o.passed) {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_DUP3, slotErr+1+i, spare+i, unix.O_CLOEXEC, 0, 0, 0); errno != 0 {
			return errno
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
	for i := range uintptr(o.passed) {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_DUP3, spare+i, slots+i, unix.O_CLOEXEC, 0, 0, 0); errno != 0 {
			return errno
		}
	}
	above := slots + uintptr(o.passed)
	_, _, errno := syscall.RawSyscall6(unix.SYS_CLOSE_RANGE, above, uintptr(^uint32(0)), 0, 0, 0, 0)
	if errno != 0 {
		// Before Linux 5.9, or a filter of system calls that is older.
		_, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, rlimitNofile, 0, uintptr(unsafe.Pointer(&o.limit)), 0, 0)
		if errno != 0 || o.limit.Soft > maxClosed {
			o.limit.Soft = maxClosed
		}
		for fd := above; fd < uintptr(o.limit.Soft); fd++ {
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
