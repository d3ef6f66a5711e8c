package terminal

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Size is the size of a terminal's window in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// DefaultSize is that of a terminal which has none to take over.
var DefaultSize = Size{Rows: 24, Cols: 80}

// Open makes a pseudo-terminal. What is written to slave can be read from
// master and the reverse; the caller closes both. As long as slave is open the
// reader of master sees no end, whatever a job does with its own descriptors;
// once master is closed everybody who has the slave is hung up on (SIGHUP).
//
// The slave is not looked up by its name: that may be another's in this mount
// namespace (TIOCGPTPEER, Linux 4.13).
func Open(size Size) (master, slave *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a pseudo-terminal: %w", &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err})
	}
	peer, err := unlock(fd)
	if err != nil {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("cannot make a pseudo-terminal: %w", err)
	}
	// Non-blocking, it is read through the runtime's poller.
	master, slave = os.NewFile(uintptr(fd), "/dev/ptmx"), os.NewFile(uintptr(peer), "pts")
	if err := SetSize(master, size); err != nil {
		master.Close()
		slave.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

func unlock(master int) (slave int, err error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, os.NewSyscallError("TIOCSPTLCK", err)
	}
	fd, _, errno := syscall.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, os.NewSyscallError("TIOCGPTPEER", errno)
	}
	return int(fd), nil
}

// Is reports whether a file is a terminal. A nil file is none.
func Is(f *os.File) bool {
	if f == nil {
		return false
	}
	is := false
	_ = control(f, func(fd int) error { // what is closed is none
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		is = err == nil
		return err
	})
	return is
}

// SizeOf is the size of the first of the files that is a terminal and knows it.
func SizeOf(files ...*os.File) (Size, bool) {
	for _, f := range files {
		if f == nil {
			continue
		}
		var size Size
		err := control(f, func(fd int) error {
			w, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
			if err == nil {
				size = Size{w.Row, w.Col}
			}
			return err
		})
		if err == nil && size != (Size{}) {
			return size, true
		}
	}
	return Size{}, false
}

// SetSize sets the size of a pseudo-terminal, by its master. Where it differs
// the kernel tells the slave's foreground group (SIGWINCH).
func SetSize(master *os.File, size Size) error {
	err := control(master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
	})
	if err != nil {
		return fmt.Errorf("cannot set the size of the terminal: %w", os.NewSyscallError("TIOCSWINSZ", err))
	}
	return nil
}

// control runs f with a file's descriptor, whose mode stays as it is.
func control(file *os.File, f func(fd int) error) error {
	conn, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	if err := conn.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}
