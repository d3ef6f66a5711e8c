package launch

import (
	"fmt"
	"os"
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

// name has the manager open the pipes that the job writes to: see
// dbusclient.ForksToClose. Each has a name of its own, which is gone before the
// number of its descriptor can be another's. What else of the unit would open them
// later, by the user's properties or for a recorder, could not.
func name(h *handed, svc *dbusclient.Service) {
	base := strings.TrimSuffix(svc.EnvironmentFile, ".env")
	svc.StdoutFile, svc.StderrFile = base+".out", base+".err"
	h.files = append(h.files, svc.StdoutFile, svc.StderrFile)
	write := h.write
	h.write = func() error {
		err := write()
		for path, f := range map[string]*os.File{svc.StdoutFile: svc.Stdout, svc.StderrFile: svc.Stderr} {
			if err == nil {
				err = os.Symlink(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), path)
			}
		}
		return err
	}
}
