package keeper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bear makes the main process and waits until it is in its cgroup. The
// operation that failed is in o.status.
//
//go:nosplit
//go:norace
func bear(o *orders) syscall.Errno {
	if o.fds[slotCgroup] >= 0 {
		o.status = opClone3
		errno := awaitBirth(o, true)
		if errno == 0 {
			return 0
		}
		if o.fds[slotProcs] < 0 {
			return errno
		}
		switch errno {
		case unix.ENOSYS, unix.EINVAL, unix.E2BIG, unix.EPERM:
			// No clone3, none with cgroups (Linux 5.3 to 5.6), or none that a
			// filter of system calls lets through.
		case stillborn:
			// Killed at birth because the cgroup, or this process's own, was
			// killed once (kernels with the 2025 change to cgroup_kill).
		default:
			return errno
		}
	}
	o.status = opFork
	return awaitBirth(o, false)
}

// stillborn is the answer for a main process that ended before it was there.
// It is above every number of the kernel's.
const stillborn = syscall.Errno(1 << 16)

//go:nosplit
//go:norace
func awaitBirth(o *orders, into bool) syscall.Errno {
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PIPE2, uintptr(unsafe.Pointer(&o.pipe)), unix.O_CLOEXEC, 0, 0, 0, 0); errno != 0 {
		o.status = opFork
		return errno
	}
	pid, errno := forkMain(o, into)
	closeFD(uintptr(o.pipe[1]))
	if errno != 0 {
		closeFD(uintptr(o.pipe[0]))
		return errno
	}
	o.main = int32(pid)
	o.birth = birth{}
	o.poll[0] = unix.PollFd{Fd: o.pipe[0], Events: unix.POLLIN}
	o.poll[1] = unix.PollFd{Fd: slotControl, Events: unix.POLLIN}
	for o.poll[0].Revents == 0 {
		syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&o.poll)), 2, 0, 0, 0, 0)
		if o.poll[0].Revents == 0 && o.poll[1].Revents != 0 {
			// The keeper is gone, or told us to end. A frozen cgroup keeps a
			// process from ever being there, but not from being killed. One that is
			// there may be known to a manager by now: see Command.Scope.
			syscall.RawSyscall6(unix.SYS_KILL, pid, uintptr(unix.SIGKILL), 0, 0, 0, 0)
			o.poll[1].Fd = -1
		}
	}
	n, _, _ := syscall.RawSyscall6(unix.SYS_READ, uintptr(o.pipe[0]), uintptr(unsafe.Pointer(&o.birth)), unsafe.Sizeof(o.birth), 0, 0, 0)
	closeFD(uintptr(o.pipe[0]))
	switch {
	case n != unsafe.Sizeof(o.birth):
		errno, o.status = stillborn, opBirth
	case o.birth.errno != 0:
		errno, o.status = syscall.Errno(o.birth.errno), opJoin
	default:
		return 0
	}
	syscall.RawSyscall6(unix.SYS_WAIT4, pid, 0, unix.WALL, 0, 0, 0)
	o.main = 0
	return errno
}

// giveUp tells the keeper why there is no main process.
//
//go:nosplit
//go:norace
func giveUp(o *orders, op int32, errno syscall.Errno) {
	o.record = record{kind: recordFailed, status: op, errno: int32(errno)}
	sendRecord(o, uintptr(o.fds[slotControl]))
	exit(1)
}

// leaveToMain drops what only the main process needs.
//
//go:nosplit
//go:norace
func leaveToMain(o *orders) {
	closeFD(slotIn)
	closeFD(slotOut)
	closeFD(slotErr)
	closeFD(slotGate)
	for i := range uintptr(o.passed) {
		closeFD(slots + i)
	}
	if o.fds[slotCgroup] >= 0 {
		closeFD(slotCgroup)
	}
	if o.fds[slotProcs] >= 0 {
		closeFD(slotProcs)
	}
	if o.fds[slotKeeperProcs] >= 0 {
		closeFD(slotKeeperProcs)
	}
	root := [...]byte{'/', 0}
	syscall.RawSyscall6(unix.SYS_CHDIR, uintptr(unsafe.Pointer(&root)), 0, 0, 0, 0, 0)
	dropPages(o.args.from, o.args.to)
	dropPages(o.variables.from, o.variables.to)
	for i := 0; i < o.gapCount; i++ {
		gap := &o.gaps[i&(len(o.gaps)-1)]
		dropPages(gap.from, gap.to)
	}
}
