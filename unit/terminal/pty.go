package terminal

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Size is the size of a terminal's window in characters.
type Size struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// DefaultSize is that of a terminal which has none to take over.
var DefaultSize = Size{Rows: 24, Cols: 80}

// PTY is a pseudo-terminal: what is written to the slave can be read from the
// master, and the reverse. It is the End of a job whose streams the slave is. As
// long as the slave is open here, the master has no end, whatever the job does
// with its own descriptors.
type PTY struct {
	Master, Slave *os.File
}

// Open makes a pseudo-terminal. The caller closes it.
//
// The slave is not looked up by its name: that may be another's in this mount
// namespace (TIOCGPTPEER, Linux 4.13).
func Open(size Size) (*PTY, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a pseudo-terminal: %w", &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err})
	}
	peer, err := unlock(fd)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot make a pseudo-terminal: %w", err)
	}
	// Non-blocking, it is read through the runtime's poller.
	p := &PTY{os.NewFile(uintptr(fd), "/dev/ptmx"), os.NewFile(uintptr(peer), "pts")}
	if err := p.Resize(size); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes both ends: everybody who has the slave is hung up on (SIGHUP).
func (p *PTY) Close() error {
	p.Slave.Close()
	return p.Master.Close()
}

func (p *PTY) Read(b []byte) (int, error)  { return p.Master.Read(b) }
func (p *PTY) Write(b []byte) (int, error) { return p.Master.Write(b) }

// SetReadDeadline is that of the master.
func (p *PTY) SetReadDeadline(t time.Time) error { return p.Master.SetReadDeadline(t) }

// SetWriteDeadline is that of the master.
func (p *PTY) SetWriteDeadline(t time.Time) error { return p.Master.SetWriteDeadline(t) }

// Resize sets the size. Where it was another the kernel tells the foreground
// group (SIGWINCH).
func (p *PTY) Resize(size Size) error { return SetSize(p.Master, size) }

// Sweep reads what is there. A read that finds nothing has first awaited what the kernel had on its
// way to the master (n_tty_read()).
func (p *PTY) Sweep(b []byte) (n int) {
	_ = control(p.Master, func(fd int) (err error) { // what is closed has nothing more
		for {
			if n, err = unix.Read(fd, b); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
	return max(n, 0)
}

// How long it takes for the end of the input to be said again.
const (
	endPause = 20 * time.Millisecond
	endMost  = time.Second
)

// EndInput says the end again and again. A terminal says it once to whoever
// reads at that moment (termios(3), EOF), and a shell that has just changed the
// terminal's mode takes the mark for a key.
func (p *PTY) EndInput(within bool, stop func(time.Duration) bool) {
	for pause := endPause; ; pause = min(2*pause, endMost) {
		if !readable(p.Slave, 0) { // all that was typed has been read
			if _, err := p.Write(p.endOfFile(within)); err != nil {
				return
			}
			within = false
		}
		if stop(pause) {
			return
		}
	}
}

// endOfFile are the keys that end the input: in the midst of a line the first
// only ends that.
func (p *PTY) endOfFile(within bool) []byte {
	key, lines := byte(4), true
	_ = control(p.Master, func(fd int) error { // without an answer it is as it mostly is
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			key, lines = t.Cc[unix.VEOF], t.Lflag&unix.ICANON != 0
		}
		return err
	})
	if lines && within {
		return []byte{key, key}
	}
	return []byte{key}
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
func Is(f *os.File) bool { return f != nil && asked(f) == nil }

// HungUp reports whether a file is a terminal that was hung up. A nil file is none.
func HungUp(f *os.File) bool {
	return f != nil && errors.Is(asked(f), unix.EIO) // of a hung up one nothing can be had (tty_io.c, hung_up_tty_ioctl())
}

// asked is the error of asking a terminal for its mode.
func asked(f *os.File) error {
	return control(f, func(fd int) error {
		_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
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

// SetSize sets the size of a terminal, by either end.
func SetSize(f *os.File, size Size) error {
	err := control(f, func(fd int) error {
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
