package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit/terminal"
)

// seat is a terminal with somebody at it: a test.
type seat struct {
	t             testing.TB
	master, slave *os.File

	mu     sync.Mutex
	screen bytes.Buffer
}

func newSeat(t testing.TB) *seat {
	t.Helper()
	pty, err := terminal.Open(terminal.Size{Rows: 33, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	master, slave := pty.Master, pty.Slave
	s := &seat{t: t, master: master, slave: slave}
	var reading sync.WaitGroup
	reading.Go(func() {
		b := make([]byte, 64<<10)
		for {
			n, err := master.Read(b)
			s.mu.Lock()
			s.screen.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		master.Close()
		slave.Close()
		reading.Wait()
	})
	return s
}

// seated is a program at a seat.
type seated struct {
	*seat
	cmd   *exec.Cmd
	ended chan struct{}
}

// begin starts a program as a login would: in a session of its own, with the
// seat as its terminal and, where they are not set, as its streams.
func (s *seat) begin(cmd *exec.Cmd) *seated {
	s.t.Helper()
	if cmd.Stdin == nil {
		cmd.Stdin = s.slave
	}
	if cmd.Stdout == nil {
		cmd.Stdout = s.slave
	}
	if cmd.Stderr == nil {
		cmd.Stderr = s.slave
	}
	cmd.ExtraFiles = []*os.File{s.slave}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	p := &seated{seat: s, cmd: cmd, ended: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.ended
	})
	return p
}

func (p *seated) signal(n syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(n); err != nil {
		p.t.Fatal(err)
	}
}

// wants waits for the end and wants an exit status; 128+n is signal n.
func (p *seated) wants(status int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("%v does not end\n%s", p.cmd.Args, p.shown())
	}
	ws, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	got := ws.ExitStatus()
	if ws.Signaled() {
		got = 128 + int(ws.Signal())
	}
	if got != status {
		p.t.Fatalf("%v: status %d, want %d\n%s", p.cmd.Args, got, status, p.shown())
	}
}

// types types keys.
func (s *seat) types(keys string) {
	s.t.Helper()
	if _, err := s.master.Write([]byte(keys)); err != nil {
		s.t.Fatal(err)
	}
}

// shown is all that has been printed so far.
func (s *seat) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.screen.String()
}

// shows waits for a text to be printed.
func (s *seat) shows(text string) {
	s.t.Helper()
	if !eventually(func() bool { return strings.Contains(s.shown(), text) }) {
		s.t.Fatalf("%q is not shown: %q", text, s.shown())
	}
}

// showsAll waits until a text and nothing else was printed.
func (s *seat) showsAll(text string) {
	s.t.Helper()
	if !eventually(func() bool { return s.shown() == text }) {
		s.t.Fatalf("%q is shown, want %q", s.shown(), text)
	}
}

// mode is the mode of the terminal.
func (s *seat) mode() unix.Termios {
	s.t.Helper()
	m, err := unix.IoctlGetTermios(int(s.slave.Fd()), unix.TCGETS)
	if err != nil {
		s.t.Fatal(err)
	}
	return *m
}

// foreground is the process group that has the terminal; 0 is none.
func (s *seat) foreground() int {
	s.t.Helper()
	group, err := unix.IoctlGetInt(int(s.master.Fd()), unix.TIOCGPGRP)
	if err != nil {
		s.t.Fatal(err)
	}
	return group
}

// raw waits until the terminal passes every key on.
func (s *seat) raw() {
	s.t.Helper()
	if !eventually(func() bool { return s.mode().Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0 }) {
		s.t.Fatalf("the terminal does not become raw: %q", s.shown())
	}
}
