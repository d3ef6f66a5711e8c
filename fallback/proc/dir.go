package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Dir is where a proc file system is mounted.
type Dir string

// Root is where it is mounted on every host.
const Root Dir = "/proc"

// ErrOtherNamespace says that a mounted proc file system is of another pid
// namespace than the caller: its numbers are not the caller's.
var ErrOtherNamespace = errors.New("it shows another pid namespace")

// PIDs lists the processes that can be seen, in no order. The error is that
// of reading the directory.
func (d Dir) PIDs() ([]int, error) {
	f, err := os.Open(string(d))
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Namespace is the caller's pid namespace, as the inode of /proc/self/ns/pid
// (pid_namespaces(7)). The error is ErrOtherNamespace when d is not of it.
func (d Dir) Namespace() (uint64, error) {
	self, err := os.Readlink(string(d) + "/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		// In a namespace that cannot see us the link is there and empty.
		return 0, fmt.Errorf("cannot use %s: %w", d, ErrOtherNamespace)
	}
	var st unix.Stat_t
	if err := unix.Stat(string(d)+"/self/ns/pid", &st); err != nil {
		return 0, fmt.Errorf("cannot identify the pid namespace: %w", err)
	}
	return st.Ino, nil
}

// BootID is the kernel's boot id (random(4)).
func (d Dir) BootID() (string, error) {
	b, err := os.ReadFile(string(d) + "/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot identify the boot: %w", err)
	}
	return firstLine(string(b)), nil
}

// Process is one process, whether it still runs or not. Close it.
type Process struct {
	// PID is its number in the pid namespace of the directory.
	PID int
	fd  int
}

// Open finds the process that has the number pid now. The error is
// fs.ErrNotExist when there is none, or none that may be seen (hidepid=2).
func (d Dir) Open(pid int) (*Process, error) {
	fd, err := unix.Open(string(d)+"/"+strconv.Itoa(pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open process %d: %w", pid, err)
	}
	return &Process{PID: pid, fd: fd}, nil
}

// Close lets go of it.
func (p *Process) Close() { unix.Close(p.fd) }

// read is a file of the process, up to limit bytes; more is cut. It fails with
// fs.ErrNotExist once the process is gone.
func (p *Process) read(name string, limit int) ([]byte, error) { return readAt(p.fd, name, limit) }

// readAt reads without the runtime's poller, which costs as much again as the
// read: a look asks every process of a host.
func readAt(dir int, name string, limit int) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, gone(err)
	}
	defer unix.Close(fd)
	b := make([]byte, 0, min(limit, 1024))
	for len(b) < limit {
		if len(b) == cap(b) {
			b = slices.Grow(b, min(3*cap(b), limit-len(b)))
		}
		n, err := unix.Read(fd, b[len(b):min(cap(b), limit)])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil, gone(err)
		case n == 0:
			return b, nil
		default:
			b = b[:len(b)+n]
		}
	}
	return b, nil
}

// threads are the numbers of its threads, sorted.
func (p *Process) threads() []int {
	fd, err := unix.Openat(p.fd, "task", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	f := os.NewFile(uintptr(fd), "task")
	defer f.Close()
	names, _ := f.Readdirnames(maxThreads)
	var tids []int
	for _, name := range names {
		if tid, err := strconv.Atoi(name); err == nil {
			tids = append(tids, tid)
		}
	}
	slices.Sort(tids)
	return tids
}

// maxThreads bounds how many threads are asked in place of a leader that ended.
const maxThreads = 64

// Signal sends a signal to this very process (pidfd_send_signal(2), which
// takes a directory of /proc as well, Linux 5.1). The error is
// os.ErrProcessDone when it has gone, and unix.EPERM when it is not ours.
func (p *Process) Signal(sig unix.Signal) error {
	err := unix.PidfdSendSignal(p.fd, sig, nil, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return os.ErrProcessDone
	case err != nil:
		return fmt.Errorf("cannot send signal %d to process %d: %w", sig, p.PID, err)
	}
	return nil
}

// gone makes the kernel's answer for a process that has ended, ESRCH, the one
// for a file that is not there.
func gone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("the process is gone: %w", fs.ErrNotExist)
	}
	return err
}
