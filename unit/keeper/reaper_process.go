package keeper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	sigChld = sigset(1) << (unix.SIGCHLD - 1)
	sigDue  = sigset(1) << (endLater - 1)

	lastSignal = 64

	// What waitid(2) has in si_code.
	codeExited = 1
	codeKilled = 2
	codeDumped = 3
)

// reap is the reaper: a process between a keeper and a main process that ends
// all of the job when the keeper is gone. Every orphan of the job comes to it,
// whatever its session, so it knows when nothing is left.
//
//go:nosplit
//go:norace
func reap(o *orders) {
	settle(o)
	if errno := bear(o); errno != 0 {
		giveUp(o, o.status, errno)
	}
	o.record = record{kind: recordBorn, pid: o.main}
	sendRecord(o, slotControl)
	leaveToMain(o)
	for {
		collect(o)
		if o.childless {
			removeCgroup(o)
			exit(0)
		}
		if o.holds > 0 {
			o.holds--
			o.ending = o.ending || o.holds == 0 || !atGate(o)
		}
		if o.finishes && o.mainEnded && o.fds[slotControl] < 0 || o.due != 0 && uptime(o) >= o.due {
			o.ending = true
		}
		if o.ending {
			endChildren(o)
		}
		heed(o)
	}
}

// settle makes the reaper of what was a thread of its keeper.
//
//go:nosplit
//go:norace
func settle(o *orders) {
	if o.fds[slotKeeperProcs] >= 0 {
		if errno := joinCgroup(uintptr(o.fds[slotKeeperProcs])); errno != 0 {
			giveUp(o, opKeeper, errno)
		}
	}
	if errno := arrange(o); errno != 0 {
		giveUp(o, opDescriptors, errno)
	}
	o.fds[slotControl] = slotControl
	syscall.RawSyscall6(unix.SYS_SETSID, 0, 0, 0, 0, 0, 0)
	name := [16]byte{'u', 'n', 'i', 't', 'w', 'a', 'r', 'd', '-', 'r', 'e', 'a', 'p', 'e', 'r'}
	syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name)), 0, 0, 0, 0)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PRCTL, unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0, 0); errno != 0 {
		giveUp(o, opSubreaper, errno)
	}
	// The main process inherits what is ignored, also by the one who started
	// this program, and must not.
	for i := uintptr(1); i <= lastSignal; i++ {
		syscall.RawSyscall6(unix.SYS_RT_SIGACTION, i, uintptr(unsafe.Pointer(&o.action)), 0, sigsetSize, 0, 0)
	}
	o.mask = sigChld
	if !o.deaf {
		o.mask |= sigTerm | sigDue
	}
	fd, _, errno := syscall.RawSyscall6(unix.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&o.mask)), sigsetSize, unix.SFD_CLOEXEC|unix.SFD_NONBLOCK, 0, 0)
	if errno != 0 {
		giveUp(o, opSignals, errno)
	}
	o.sigfd = int32(fd)
	openProc(o)
	pid, _, _ := syscall.RawSyscall6(unix.SYS_GETPID, 0, 0, 0, 0, 0, 0)
	o.pid = int32(pid)
}

// openProc opens what endChildren reads; what is not there is -1.
//
//go:nosplit
//go:norace
func openProc(o *orders) {
	at := unix.AT_FDCWD
	proc := [...]byte{'/', 'p', 'r', 'o', 'c', 0}
	o.proc, o.below = -1, -1
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&proc)), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return
	}
	o.proc = int32(fd)
	if o.scan {
		return
	}
	below := [...]byte{'t', 'h', 'r', 'e', 'a', 'd', '-', 's', 'e', 'l', 'f', '/', 'c', 'h', 'i', 'l', 'd', 'r', 'e', 'n', 0}
	fd, _, errno = syscall.RawSyscall6(unix.SYS_OPENAT, fd, uintptr(unsafe.Pointer(&below)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	if errno == 0 {
		o.below = int32(fd)
	}
}

// collect reaps what has ended. The status of the main process is told before
// it is reaped: should this process be killed in between, the keeper still
// finds it.
//
//go:nosplit
//go:norace
func collect(o *orders) {
	for {
		o.info.pid = 0
		_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_ALL, 0, uintptr(unsafe.Pointer(&o.info)),
			unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, uintptr(unsafe.Pointer(&o.usage)), 0)
		switch {
		case errno == unix.ECHILD:
			// Only a descendant could become a child again, and there is none.
			o.childless = true
			noteChildless(o)
			return
		case errno != 0 && errno != unix.EINTR, errno == 0 && o.info.pid == 0:
			return
		case errno != 0:
			continue
		}
		if o.info.pid == o.main && !o.mainEnded {
			o.mainEnded = true
			noteExit(o)
		}
		syscall.RawSyscall6(unix.SYS_WAIT4, uintptr(o.info.pid), 0, unix.WALL|unix.WNOHANG, 0, 0, 0)
		o.quiet = 0
	}
}

// heed waits for a child's end, SIGTERM, the time of an end that was asked for,
// a word of the keeper or its end.
//
//go:nosplit
//go:norace
func heed(o *orders) {
	most := uintptr(0)
	if o.ending {
		o.now = unix.Timespec{Nsec: shortTick}
		if o.quiet > quietTicks || o.struck == 0 && o.spared > 0 {
			o.now.Nsec = longTick
		}
		o.quiet++
		most = uintptr(unsafe.Pointer(&o.now))
	} else if o.holds > 0 {
		o.now = unix.Timespec{Nsec: shortTick}
		most = uintptr(unsafe.Pointer(&o.now))
	} else if o.due != 0 {
		left := max(o.due-uptime(o), 0)
		o.now = unix.Timespec{Sec: left / 1e9, Nsec: left % 1e9}
		most = uintptr(unsafe.Pointer(&o.now))
	}
	o.poll[0] = unix.PollFd{Fd: o.sigfd, Events: unix.POLLIN}
	o.poll[1] = unix.PollFd{Fd: o.fds[slotControl], Events: unix.POLLIN}
	o.poll[2], o.poll[3] = unix.PollFd{Fd: -1}, unix.PollFd{Fd: -1}
	if o.drains {
		o.poll[2] = unix.PollFd{Fd: o.fds[slotReadOut], Events: unix.POLLIN}
		o.poll[3] = unix.PollFd{Fd: o.fds[slotReadErr], Events: unix.POLLIN}
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&o.poll)), uintptr(len(o.poll)), most, 0, 0, 0)
	if errno != 0 {
		return
	}
	if o.poll[2].Revents != 0 {
		drop(o, slotReadOut)
	}
	if o.poll[3].Revents != 0 {
		drop(o, slotReadErr)
	}
	if o.poll[0].Revents != 0 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_READ, uintptr(o.sigfd), uintptr(unsafe.Pointer(&o.buf)), unsafe.Sizeof(o.buf), 0, 0, 0)
		if errno == 0 {
			for at := uintptr(0); at < n; at += unsafe.Sizeof(unix.SignalfdSiginfo{}) {
				// The first field is the signal, in the order of this machine.
				switch o.buf[at&(4096-1)] {
				case byte(unix.SIGTERM):
					o.ending = true
				case byte(endLater):
					fallDue(o, at)
				}
			}
		}
	}
	if o.poll[1].Revents != 0 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, slotControl, uintptr(unsafe.Pointer(&o.buf)), 1, unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN, errno == unix.EINTR, errno == unix.ECONNRESET:
			// A reset is told before what was sent first: see readRecord.
		case errno == 0 && n > 0 && o.buf[0] == tellStay:
			o.onHangup = HangupStay
		case errno == 0 && n > 0 && o.buf[0] == tellDrain:
			o.drains = true
		case errno == 0 && n > 0:
			o.ending = true
		default:
			closeFD(slotControl)
			o.fds[slotControl] = -1
			o.drains = true // who kept the output is gone
			switch {
			case o.onHangup != HangupEnd:
			case o.scope.expects > 0:
				o.holds = holdTicks
			default:
				o.ending = true
			}
		}
	}
}

// atGate is true for a main process that executes nothing yet, and ends by itself
// once it is in its scope: it is in this process's session until it is admitted.
//
//go:nosplit
//go:norace
func atGate(o *orders) bool {
	sid, _, _ := syscall.RawSyscall6(unix.SYS_GETSID, uintptr(o.main), 0, 0, 0, 0, 0)
	return !o.mainEnded && int32(sid) == o.pid
}

// drop reads some of the output, which nobody keeps any more. It is no blocking
// descriptor: who kept it has made it none.
//
//go:nosplit
//go:norace
func drop(o *orders, slot uintptr) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_READ, slot, uintptr(unsafe.Pointer(&o.buf)), unsafe.Sizeof(o.buf), 0, 0, 0)
	if errno == 0 && n > 0 || errno == unix.EAGAIN || errno == unix.EINTR {
		return
	}
	closeFD(slot)
	o.fds[slot] = -1
}
