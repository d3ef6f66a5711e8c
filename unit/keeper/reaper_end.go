package keeper

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// While everything is to end, the reaper looks again at every end of a child
// and at least at each tick, in nanoseconds. The ticks grow long when nothing
// has ended for some, and where nothing can be signalled.
const (
	shortTick  = 10e6
	longTick   = 100e6
	quietTicks = 100

	// holdTicks are as many short ticks: longer than a main process waits for its
	// scope.
	holdTicks = 400

	// maxReports bounds what is told of processes that refuse, so that the
	// keeper's socket has room for what counts, also when it does not read.
	maxReports = 64
)

// endChildren sends SIGKILL to every child. Their children come to be ours.
//
//go:nosplit
//go:norace
func endChildren(o *orders) {
	if o.fds[slotKill] >= 0 && o.quiet%quietTicks == 0 {
		one := [1]byte{'1'}
		syscall.RawSyscall6(unix.SYS_WRITE, slotKill, uintptr(unsafe.Pointer(&one)), 1, 0, 0, 0)
	}
	o.struck, o.spared = 0, 0
	if !o.mainEnded {
		strike(o, o.main)
	}
	if o.below >= 0 {
		strikeListed(o)
	} else if o.proc >= 0 {
		strikeFound(o)
	}
}

// strike sends SIGKILL to pid if it is a child of ours. Nobody else reaps it,
// so it can be no other process meanwhile.
//
//go:nosplit
//go:norace
func strike(o *orders, pid int32) {
	_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(pid), 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, 0, 0)
	if errno != 0 {
		return
	}
	_, _, errno = syscall.RawSyscall6(unix.SYS_KILL, uintptr(pid), uintptr(unix.SIGKILL), 0, 0, 0, 0)
	if errno != unix.EPERM {
		o.struck++
		return
	}
	o.spared++
	if pid != o.refused && o.reports < maxReports {
		o.refused = pid
		o.reports++
		o.record = record{kind: recordRefused, pid: pid, errno: int32(errno)}
		sendRecord(o, slotControl)
	}
}

// strikeListed goes through the kernel's list of our children.
//
//go:nosplit
//go:norace
func strikeListed(o *orders) {
	fd := uintptr(o.below)
	syscall.RawSyscall6(unix.SYS_LSEEK, fd, 0, unix.SEEK_SET, 0, 0, 0)
	pid := int32(0)
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&o.buf)), unsafe.Sizeof(o.buf), 0, 0, 0)
		if errno != 0 || n == 0 {
			return
		}
		for i := uintptr(0); i < n; i++ {
			c := o.buf[i&(4096-1)]
			if c >= '0' && c <= '9' {
				pid = pid*10 + int32(c-'0')
				continue
			}
			if pid > 0 {
				strike(o, pid)
			}
			pid = 0
		}
	}
}

// removeCgroup removes the cgroup of a job of which nothing is left, where the
// keeper, which would do that, is gone. A cgroup can be busy for some
// milliseconds after its last process; one that others have put theirs into
// stays so.
//
//go:nosplit
//go:norace
func removeCgroup(o *orders) {
	if o.fds[slotHolder] < 0 {
		return
	}
	if o.fds[slotControl] >= 0 {
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, slotControl, uintptr(unsafe.Pointer(&o.buf)), 1, unix.MSG_DONTWAIT|unix.MSG_PEEK, 0, 0)
		if errno != 0 && errno != unix.ECONNRESET || n != 0 && errno == 0 {
			return
		}
	}
	for range removeTries {
		name := uintptr(unsafe.Pointer(&o.cgroupName))
		// A later job's cgroup can have the name by now.
		_, _, errno := syscall.RawSyscall6(sysFstatat, slotHolder, name, uintptr(unsafe.Pointer(&o.inode)), unix.AT_SYMLINK_NOFOLLOW, 0, 0)
		if errno != 0 || o.inode.Ino != o.cgroupInode {
			return
		}
		_, _, errno = syscall.RawSyscall6(unix.SYS_UNLINKAT, slotHolder, name, unix.AT_REMOVEDIR, 0, 0, 0)
		if errno != unix.EBUSY {
			return
		}
		o.now = unix.Timespec{Nsec: shortTick}
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, uintptr(unsafe.Pointer(&o.now)), 0, 0, 0)
	}
}

// removeTries are as many ticks.
const removeTries = 100

// strikeFound looks for our children among all processes, where the kernel
// has no list (CONFIG_PROC_CHILDREN).
//
//go:nosplit
//go:norace
func strikeFound(o *orders) {
	fd := uintptr(o.proc)
	syscall.RawSyscall6(unix.SYS_LSEEK, fd, 0, unix.SEEK_SET, 0, 0, 0)
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_GETDENTS64, fd, uintptr(unsafe.Pointer(&o.buf)), unsafe.Sizeof(o.buf), 0, 0, 0)
		if errno != 0 || n == 0 {
			return
		}
		for at := uintptr(0); at+direntName < n; {
			pid := int32(0)
			name := at + direntName
			for ; name < n; name++ {
				c := o.buf[name&(4096-1)]
				if c < '0' || c > '9' {
					if c != 0 {
						pid = 0
					}
					break
				}
				pid = pid*10 + int32(c-'0')
			}
			if pid > 0 && parentOf(o, uintptr(unsafe.Pointer(&o.buf))+at+direntName) == o.pid {
				strike(o, pid)
			}
			// d_reclen, of 16 bits; both machines have the low byte first.
			length := uintptr(o.buf[(at+16)&(4096-1)]) | uintptr(o.buf[(at+17)&(4096-1)])<<8
			if length == 0 {
				return
			}
			at += length
		}
	}
}

// direntName is where struct linux_dirent64 has its name.
const direntName = 19

// parentOf reads the parent of the process whose name in /proc is at name; 0
// when it is gone. The field after the last parenthesis and the state is it.
//
//go:nosplit
//go:norace
func parentOf(o *orders, name uintptr) int32 {
	dir, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(o.proc), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if errno != 0 {
		return 0
	}
	stat := [...]byte{'s', 't', 'a', 't', 0}
	fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, dir, uintptr(unsafe.Pointer(&stat)), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	closeFD(dir)
	if errno != 0 {
		return 0
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&o.stat)), unsafe.Sizeof(o.stat), 0, 0, 0)
	closeFD(fd)
	if errno != 0 {
		return 0
	}
	at := n
	for at > 0 && o.stat[(at-1)&(512-1)] != ')' {
		at--
	}
	parent := int32(0)
	for at += uintptr(len(" S ")); at < n; at++ {
		c := o.stat[at&(512-1)]
		if c < '0' || c > '9' {
			break
		}
		parent = parent*10 + int32(c-'0')
	}
	return parent
}
