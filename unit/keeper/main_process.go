package keeper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// becomeMain is the main process, up to its exec. Nothing of the command
// exists before it is in its cgroup, and nothing is done before its keeper
// has said so.
//
//go:nosplit
//go:norace
func becomeMain(o *orders, born bool) {
	closeFD(uintptr(o.pipe[0]))
	o.birth = birth{here: 1}
	if !born && o.fds[slotProcs] >= 0 {
		o.birth.errno = int32(joinCgroup(slotProcs))
	}
	syscall.RawSyscall6(unix.SYS_WRITE, uintptr(o.pipe[1]), uintptr(unsafe.Pointer(&o.birth)), unsafe.Sizeof(o.birth), 0, 0, 0)
	closeFD(uintptr(o.pipe[1]))
	if o.birth.errno != 0 {
		exit(statusNoRun)
	}
	// The reaper says so too, but one that waits has to be woken first.
	self, _, _ := syscall.RawSyscall6(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	o.record = record{kind: recordBorn, pid: int32(self)}
	o.gate = slotGate
	sendRecord(o, o.gate)
	if !admitted(o) {
		// The end of a process in its scope is one that the scope's manager sees.
		awaitScope(&o.scope)
		exit(statusNoRun)
	}
	nameSelf(o, self)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0); errno != 0 {
		refuse(o, opSetsid, errno)
	}
	if o.terminal {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_IOCTL, slotIn, unix.TIOCSCTTY, 0, 0, 0, 0); errno != 0 {
			refuse(o, opTerminal, errno)
		}
	}
	syscall.RawSyscall6(unix.SYS_UMASK, uintptr(o.umask), 0, 0, 0, 0, 0)
	if errno := takePassed(o); errno != 0 {
		refuse(o, opDescriptors, errno)
	}
	if o.hasNice {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(o.nice), 0, 0, 0); errno != 0 {
			refuse(o, opNice, errno)
		}
	}
	// Hard limits may be raised, and the priority too, as long as this is
	// root; the directory and the executable are looked up as the user.
	if errno := limitMain(o); errno != 0 {
		refuse(o, opRlimit, errno)
	}
	if op, errno := identifyMain(o); errno != 0 {
		refuse(o, op, errno)
	}
	if o.onHangup == HangupEnd && !o.deaf {
		syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0, 0)
		if parent, _, _ := syscall.RawSyscall6(unix.SYS_GETPPID, 0, 0, 0, 0, 0, 0); int32(parent) != o.pid {
			// The reaper was gone before.
			syscall.RawSyscall6(unix.SYS_KILL, self, uintptr(unix.SIGKILL), 0, 0, 0, 0)
		}
	}
	if o.dir != 0 {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_CHDIR, o.dir, 0, 0, 0, 0, 0); errno != 0 {
			refuse(o, opChdir, errno)
		}
	}
	o.mask = 0
	rawMask(&o.mask, nil)
	_, _, errno := syscall.RawSyscall6(unix.SYS_EXECVE, o.path, o.argv, o.env, 0, 0, 0)
	refuse(o, opExec, errno)
}

// joinCgroup moves this process to the cgroup whose cgroup.procs is fd.
//
//go:nosplit
//go:norace
func joinCgroup(fd uintptr) syscall.Errno {
	zero := [1]byte{'0'}
	for {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_WRITE, fd, uintptr(unsafe.Pointer(&zero)), 1, 0, 0, 0); errno != unix.EINTR {
			return errno
		}
	}
}

// admitted waits at the gate, and takes what is told there. It is false when the
// keeper is gone.
//
//go:nosplit
//go:norace
func admitted(o *orders) bool {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_READ, slotGate, uintptr(unsafe.Pointer(&o.line)), 1+maxTold, 0, 0, 0)
		if errno == unix.EINTR || errno == unix.ECONNRESET { // see readRecord
			continue
		}
		for i := uint32(1); o.toldAt != 0 && i < uint32(n); i++ {
			o.told[(o.toldAt+i-1)&(variableSize-1)] = o.line[i&(uint32(len(o.line))-1)]
		}
		return errno == 0 && n >= 1
	}
}

// nameSelf writes this process's number into the variables that are to have it.
//
//go:nosplit
//go:norace
func nameSelf(o *orders, self uintptr) {
	digits := uint32(1)
	for n := self; n >= 10; n /= 10 {
		digits++
	}
	for i := range o.own {
		n := self
		for at := o.ownAt[i] + digits; o.ownAt[i] != 0 && at > o.ownAt[i]; n /= 10 {
			at--
			o.own[i][at&(variableSize-1)] = '0' + byte(n%10)
		}
	}
}

// takePassed puts the descriptors that are passed on to their numbers. They are those
// of the slots, of which only the gate is needed any more.
//
//go:nosplit
//go:norace
func takePassed(o *orders) syscall.Errno {
	if o.passed == 0 {
		return 0
	}
	gate, _, errno := syscall.RawSyscall6(unix.SYS_FCNTL, o.gate, unix.F_DUPFD_CLOEXEC, slots+uintptr(o.passed), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	o.gate = gate
	for i := range uintptr(o.passed) {
		if _, _, errno := syscall.RawSyscall6(unix.SYS_DUP3, slots+i, slotErr+1+i, 0, 0, 0, 0); errno != 0 {
			return errno
		}
	}
	return 0
}

// refuse tells the keeper why the command is not executed.
//
//go:nosplit
//go:norace
func refuse(o *orders, op int32, errno syscall.Errno) {
	o.record = record{kind: recordFailed, status: op, errno: int32(errno)}
	sendRecord(o, o.gate)
	exit(statusNoRun)
}

// limitMain sets the resource limits as raise does.
//
//go:nosplit
//go:norace
func limitMain(o *orders) syscall.Errno {
	for i := range uintptr(len(o.rlimits)) {
		if o.rlimitSet&(1<<i) == 0 {
			continue
		}
		want := uintptr(unsafe.Pointer(&o.rlimits[i]))
		_, _, errno := syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, i, want, 0, 0, 0)
		if errno == unix.EPERM {
			syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, i, 0, uintptr(unsafe.Pointer(&o.limit)), 0, 0)
			if o.rlimits[i].Hard > o.limit.Hard {
				o.rlimits[i].Hard = o.limit.Hard
			}
			if o.rlimits[i].Soft > o.rlimits[i].Hard {
				o.rlimits[i].Soft = o.rlimits[i].Hard
			}
			_, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, i, want, 0, 0, 0)
		}
		if errno != 0 {
			return errno
		}
	}
	return 0
}

// identifyMain sets the groups first: they may not be changed any more once
// the user is.
//
//go:nosplit
//go:norace
func identifyMain(o *orders) (op int32, errno syscall.Errno) {
	if !o.hasCredential {
		return 0, 0
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETGROUPS, o.groupCount, o.groups, 0, 0, 0, 0); errno != 0 {
		return opGroups, errno
	}
	gid, uid := uintptr(o.gid), uintptr(o.uid)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETRESGID, gid, gid, gid, 0, 0, 0); errno != 0 {
		return opGID, errno
	}
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SETRESUID, uid, uid, uid, 0, 0, 0); errno != 0 {
		return opUID, errno
	}
	return 0, 0
}
