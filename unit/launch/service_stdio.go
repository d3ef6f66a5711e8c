package launch

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// lend gives a service the caller's streams that it inherits, and as few descriptors
// as that takes: see dbusclient.ForksToClose. /dev/null the manager opens by itself,
// and two streams that are one take one.
func lend(s *unit.Spec, io Stdio, svc *dbusclient.Service) {
	if s.Stdin == unit.InputInherit && !isNull(io.In) {
		svc.Stdin = io.In // a terminal becomes the controlling one of who gets it as input (systemd 229)
	}
	switch s.Output {
	case unit.OutputJournal:
		svc.Output = unit.OutputJournal
	case unit.OutputInherit:
		if !isNull(io.Out) {
			svc.Stdout = io.Out
		}
		if !isNull(io.Err) {
			svc.Stderr = io.Err
		}
		// The user's own StandardOutput= would take the other stream along.
		if len(s.Properties) == 0 && svc.Stdout != nil && svc.Stderr != nil && one(svc.Stdout, svc.Stderr) {
			svc.Stderr = svc.Stdout
		}
	}
}

// isNull is true for /dev/null, and for no file at all.
func isNull(f *os.File) bool {
	if f == nil {
		return true
	}
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && st.Rdev == unix.Mkdev(1, 3) // null(4)
}

// one is true for two descriptors of one open file description (kcmp(2)): offset and
// flags are the same for both. Where that cannot be asked they are two.
func one(a, b *os.File) bool {
	pid, sameFile := uintptr(os.Getpid()), uintptr(0) // KCMP_FILE
	order, _, errno := unix.RawSyscall6(unix.SYS_KCMP, pid, pid, sameFile, a.Fd(), b.Fd(), 0)
	return errno == 0 && order == 0
}

// name has the manager open the pipes that the job is given, where it takes them so
// as it takes their descriptors: see dbusclient.ForksToClose. Each has a name of its
// own, which is gone before the number of its descriptor can be another's. What else of
// the unit would open them later, by the user's properties or for a recorder, could not;
// and what has no recorder ends with this process, whose descriptors they are.
func name(h *handed, m unit.Manager, svc *dbusclient.Service) {
	if m != unit.ManagerSystem && !visible() {
		return
	}
	base := strings.TrimSuffix(svc.EnvironmentFile, environmentSuffix)
	apart := svc.Stderr
	if apart == svc.Stdout {
		apart = nil // it goes along
	}
	for i, st := range []struct {
		file   *os.File
		access int
		path   *string
	}{
		{svc.Stdin, unix.O_RDONLY, &svc.StdinFile},
		{svc.Stdout, unix.O_WRONLY, &svc.StdoutFile},
		{apart, unix.O_WRONLY, &svc.StderrFile},
	} {
		if !opensAnew(st.file, st.access, m) {
			continue
		}
		path := base + "." + strconv.Itoa(i)
		*st.path, h.files = path, append(h.files, path)
		file, write := st.file, h.write
		h.write = func() error {
			if err := write(); err != nil {
				return err
			}
			return os.Symlink("/proc/"+strconv.Itoa(os.Getpid())+"/fd/"+strconv.Itoa(int(file.Fd())), path)
		}
	}
}

// opensAnew is true for a stream of which nobody can tell whether a manager was given
// its descriptor or has opened it by the name in /proc: an anonymous pipe, which has no
// offset, and whose open waits for nobody (a FIFO's does, fifo(7)), without flags that
// would be lost. A user's manager can open what is his.
func opensAnew(f *os.File, access int, m unit.Manager) bool {
	if f == nil {
		return false
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type != unix.PIPEFS_MAGIC {
		return false
	}
	if flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0); err != nil || flags != access {
		return false
	}
	var st unix.Stat_t
	return m == unit.ManagerSystem || unix.Fstat(int(f.Fd()), &st) == nil && int(st.Uid) == os.Geteuid()
}

// visible is true where a manager of this user may look into this process (ptrace(2),
// PTRACE_MODE_READ_FSCREDS).
func visible() bool {
	if dumpable, _ := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); dumpable != 1 {
		return false
	}
	var caps [2]unix.CapUserData // more than the manager's keep it out
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	return os.Geteuid() == 0 || unix.Capget(&header, &caps[0]) == nil && caps[0].Permitted|caps[1].Permitted == 0
}
