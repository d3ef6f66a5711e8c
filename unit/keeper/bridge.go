package keeper

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Bridge is a program that passes what is written to a connection on to
// somewhere else, and back, by its standard input and output.
type Bridge struct {
	// Conn is our end.
	Conn *net.UnixConn

	cmd  *exec.Cmd
	done chan struct{}
	said tail
	err  error
	once sync.Once
}

const (
	// bridgeSays is how much of what a bridge prints as errors is kept.
	bridgeSays = 2 << 10
	// bridgeEnds is how long a bridge may take to end by itself once its
	// connection has.
	bridgeEnds = 200 * time.Millisecond
)

// NewBridge starts a program, which is looked up in $PATH. It may ask on the
// terminal, as ssh does for a password. What a terminal sends to all of its
// foreground group, to interrupt, is not for it: it carries that further. It ends
// with this process.
func NewBridge(argv []string) (*Bridge, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		var e *exec.Error
		if errors.As(err, &e) {
			err = e.Err
		}
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make a pair of sockets: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "bridge"), os.NewFile(uintptr(ends[1]), "bridge")
	defer ours.Close()
	defer theirs.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("cannot use a socket: %w", err)
	}
	b := &Bridge{Conn: c.(*net.UnixConn), done: make(chan struct{})}
	// A signal that is ignored stays so across execve(2), and ssh leaves it so.
	b.cmd = exec.Command("/bin/sh", append([]string{"-c", `trap "" INT QUIT; exec "$@"`, "sh", path}, argv[1:]...)...)
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = theirs, theirs, &b.said
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGTERM}
	b.cmd.WaitDelay = bridgeEnds // what it left behind may hold its errors
	if err := b.cmd.Start(); err != nil {
		_ = c.Close() // there is a better error
		return nil, fmt.Errorf("cannot start %s: %w", argv[0], err)
	}
	go func() {
		b.err = b.cmd.Wait()
		close(b.done)
	}()
	return b, nil
}

// End ends the program, and returns what it had to say where it had ended, or
// did so, by itself; nil is nothing. Conn is closed before. It can be called again.
func (b *Bridge) End() error {
	b.once.Do(func() {
		select {
		case <-b.done:
			return
		case <-time.After(bridgeEnds):
		}
		_ = b.cmd.Process.Signal(unix.SIGTERM)
		select {
		case <-b.done:
		case <-time.After(bridgeEnds):
			_ = b.cmd.Process.Kill()
			<-b.done
		}
		b.err = nil
	})
	if b.err == nil {
		return nil
	}
	if said := b.said.String(); said != "" {
		return errors.New(said)
	}
	return fmt.Errorf("%s: %w", b.cmd.Args[4], b.err)
}

// tail is the last of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write takes everything.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - bridgeSays; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

// String is it in one line.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.FieldsFunc(t.buf, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = bytes.TrimSpace(l)
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(string(bytes.Join(lines, []byte("; "))), "?"))
}
