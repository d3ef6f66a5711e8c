package terminal

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Raw is the raw mode of a user's terminal: every key is passed on as it is,
// and nothing is done to what is printed. It is for one goroutine at a time.
type Raw struct {
	modes []mode
}

// mode is how one stream was found, and how it is to be.
type mode struct {
	file       *os.File
	keys       bool // they come from it
	saved, raw unix.Termios
	changed    bool
}

// NewRaw reads the mode that Leave is to restore, and changes nothing. in is
// where keys come from, out where output goes. What is no terminal is left
// alone; where in is none, out is told no more than to print all as it comes.
func NewRaw(in, out *os.File) (*Raw, error) {
	r := &Raw{}
	for i, f := range []*os.File{in, out} {
		if !Is(f) || i == 1 && len(r.modes) > 0 && same(in, out) {
			continue
		}
		m := mode{file: f, keys: i == 0}
		if err := control(f, func(fd int) error {
			t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
			if err == nil {
				m.saved, m.raw = *t, *t
			}
			return err
		}); err != nil {
			return nil, fmt.Errorf("cannot read the mode of the terminal: %w", os.NewSyscallError("TCGETS", err))
		}
		if m.keys {
			makeRaw(&m.raw)
		} else {
			m.raw.Oflag &^= unix.OPOST
		}
		r.modes = append(r.modes, m)
	}
	return r, nil
}

// same is true for two descriptors of one terminal.
func same(a, b *os.File) bool {
	x, err := a.Stat()
	if err != nil {
		return false
	}
	y, err := b.Stat()
	return err == nil && os.SameFile(x, y)
}

// makeRaw is cfmakeraw(3).
func makeRaw(t *unix.Termios) {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
}

// Enter makes the terminal raw. In the background it stops this process, as
// for every program that wants keys (SIGTTOU); who wants none goes on without.
func (r *Raw) Enter() error {
	for i := range r.modes {
		m := &r.modes[i]
		if !m.keys && !foreground(m.file) {
			continue
		}
		if err := set(m.file, &m.raw); err != nil {
			r.Leave()
			return fmt.Errorf("cannot make the terminal raw: %w", os.NewSyscallError("TCSETS", err))
		}
		m.changed = true
	}
	return nil
}

// Leave restores what was found. It can be called again. In the background the
// terminal is another's, who has given it a mode of its own, and is left alone.
func (r *Raw) Leave() {
	// Between the look and the change another can come to the foreground: that
	// must not stop this process, which may be about to end.
	defer goOn()()
	for i := range r.modes {
		m := &r.modes[i]
		if m.changed && foreground(m.file) {
			_ = set(m.file, &m.saved) // a terminal that was hung up has no mode
		}
		m.changed = false
	}
}

// Keep reads the mode of a terminal that somebody else is about to change, and
// returns what restores it, also in the background. Of what is no terminal it does
// nothing.
func Keep(f *os.File) (restore func()) {
	was, ok := modeNow(f)
	if !ok {
		return func() {}
	}
	return func() {
		defer goOn()()
		if is, ok := modeNow(f); ok && is != was {
			_ = set(f, &was) // a terminal that was hung up has no mode
		}
	}
}

func modeNow(f *os.File) (t unix.Termios, ok bool) {
	if !Is(f) {
		return t, false
	}
	err := control(f, func(fd int) error {
		now, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			t = *now
		}
		return err
	})
	return t, err == nil
}

// goOn lets this thread change a terminal in the background, for which it would be
// stopped (SIGTTOU), until the end of what it returns.
func goOn() (end func()) {
	runtime.LockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old)
	return func() {
		if err == nil {
			_ = unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil)
		}
		runtime.UnlockOSThread()
	}
}

// foreground is true where this process may change the terminal: it is of the
// foreground group, or the terminal is not its controlling one.
func foreground(f *os.File) bool {
	own := unix.Getpgrp()
	group := own
	err := control(f, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return err != nil || group == own
}

func set(f *os.File, t *unix.Termios) error {
	for {
		err := control(f, func(fd int) error { return unix.IoctlSetTermios(fd, unix.TCSETS, t) })
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
