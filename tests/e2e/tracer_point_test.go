package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call under way.
type call struct {
	name   string
	before bool // it is a point before, too
}

// pointAt counts a fault point; false when the thread is to stay there.
func (t *tracer) pointAt(tid int, p *traced) bool {
	info, ok := syscallInfo(tid)
	if !ok {
		return true
	}
	what := ""
	switch info.op {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		c := interest(tid, info)
		t.calls[tid] = c
		if c == nil || !c.before {
			return true
		}
		what = "before " + c.name
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		c := t.calls[tid]
		delete(t.calls, tid)
		got := int64(info.args[0]) // rval has its place
		if c == nil || !c.before && got <= 0 && (c.name != "waitid" || got != 0) {
			return true
		}
		what = "after " + c.name
		if got < 0 {
			what += ": " + unix.ErrnoName(syscall.Errno(-got))
		}
	default:
		return true
	}
	t.named(p)
	key := [2]string{t.phase, p.role}
	t.counts[key]++
	at := point{t.phase, p.role, t.counts[key], what}
	t.tell(news{What: "point", Point: at, PID: p.pid})
	if t.fired || !at.same(t.target.Target) {
		return true
	}
	t.fired = true
	if t.target.Hold {
		t.held = tid
		t.tell(news{What: "held", Point: at, PID: p.pid})
		return false
	}
	_ = unix.Kill(p.pid, unix.SIGKILL)
	t.tell(news{What: "struck", Point: at, PID: p.pid})
	return true
}

// callInfo is struct ptrace_syscall_info (ptrace(2)).
type callInfo struct {
	op         uint8
	_          [3]uint8
	arch       uint32
	ip, sp, nr uint64 // nr is rval at the exit
	args       [6]uint64
	_          [2]uint64
}

func syscallInfo(tid int) (info callInfo, ok bool) {
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if info.op == unix.PTRACE_SYSCALL_INFO_EXIT {
		info.args[0] = info.nr
	}
	return info, errno == 0
}

// interest is the call when it is one by which something is done or heard; nil
// for all others.
func interest(tid int, info callInfo) *call {
	fd := func() string {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(info.args[0])))
		return to
	}
	both := func(name string) *call { return &call{name, true} }
	switch info.nr {
	case unix.SYS_OPENAT:
		if info.args[2]&(unix.O_CREAT|unix.O_TRUNC|unix.O_ACCMODE) != 0 {
			return both("openat")
		}
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV:
		// An eventfd wakes the runtime's own poller.
		if to := fd(); to != "anon_inode:[eventfd]" {
			return both("write to " + place(to))
		}
	case unix.SYS_READ:
		if to := fd(); strings.HasPrefix(to, "socket:") || strings.HasPrefix(to, "pipe:") {
			return &call{name: "read of " + place(to)}
		}
	case unix.SYS_CLONE:
		if info.args[0]&unix.CLONE_THREAD == 0 {
			return both("clone")
		}
	case unix.SYS_RECVMSG, unix.SYS_RECVFROM:
		return &call{name: "recvmsg"}
	case unix.SYS_WAIT4:
		return &call{name: "wait4"}
	case unix.SYS_WAITID:
		return &call{name: "waitid"}
	}
	if name := acts[info.nr]; name != "" {
		return both(name)
	}
	return nil
}

// acts are further calls that act on the world.
var acts = map[uint64]string{
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_RENAMEAT: "renameat", unix.SYS_RENAMEAT2: "renameat2", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync", unix.SYS_FLOCK: "flock", unix.SYS_FTRUNCATE: "ftruncate",
	unix.SYS_FALLOCATE: "fallocate", unix.SYS_FCHMOD: "fchmod", unix.SYS_SENDTO: "sendto", unix.SYS_SENDMSG: "sendmsg",
	unix.SYS_CONNECT: "connect", unix.SYS_BIND: "bind", unix.SYS_SHUTDOWN: "shutdown", unix.SYS_CLONE3: "clone3",
	unix.SYS_EXECVE: "execve", unix.SYS_KILL: "kill", unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal", unix.SYS_SETSID: "setsid",
	unix.SYS_SPLICE: "splice", unix.SYS_TEE: "tee", unix.SYS_UTIMENSAT: "utimensat", unix.SYS_EXIT_GROUP: "exit_group",
}

// place names what is written to without what differs from run to run.
func place(to string) string {
	kind, _, _ := strings.Cut(to, ":")
	if strings.HasPrefix(to, "/") {
		return filepath.Base(to)
	}
	return kind
}
