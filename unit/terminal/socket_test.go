package terminal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The socket is its owner's alone, and nothing else is taken for it.
func TestSocket(t *testing.T) {
	h := hold(t, nil)
	path := filepath.Join(h.dir, SocketName)
	if len(path) <= len(unix.RawSockaddrUnix{}.Path) {
		t.Errorf("%s is no path that is too long for a socket's address", path)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("it is %v, %v", info.Mode(), err)
	}
	fake := t.TempDir()
	dir, err := os.Open(fake)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	at := filepath.Join(fake, SocketName)
	if err := os.Symlink(path, at); err != nil {
		t.Fatal(err)
	}
	if r, err := Attach(dir, Visit{}); err == nil {
		r.Close()
		t.Error("a link is followed")
	}
	os.Remove(at)
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(dir, Visit{}); err == nil || errors.Is(err, ErrNoHolder) {
		t.Errorf("a file: %v", err)
	}
	os.Remove(at)
	if _, err := Attach(dir, Visit{}); !errors.Is(err, ErrNoHolder) {
		t.Errorf("nothing: %v", err)
	}
	// One of which the listener has gone.
	s, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Attach(dir, Visit{}); err == nil || errors.Is(err, ErrNoHolder) {
		t.Errorf("one for everybody: %v", err)
	}
	os.Chmod(at, 0o600)
	s.Close()
	if _, err := Attach(dir, Visit{}); !errors.Is(err, ErrNoHolder) {
		t.Errorf("one without a listener: %v", err)
	}
	if _, err := listen(dir); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second one: %v", err)
	}
	if os.Geteuid() == 0 {
		if err := unix.Lchown(at, 1, -1); err != nil {
			t.Fatal(err)
		}
		if _, err := Attach(dir, Visit{}); err == nil || errors.Is(err, ErrNoHolder) {
			t.Errorf("another's: %v", err)
		}
	}
}

// A holder that does not answer is not waited for for ever, however many try.
func TestAttachSilent(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	socket, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, err := Attach(dir, Visit{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one who tries: %v", err)
	}
	for range 2 * maxViewers {
		conn, err := dial(dir)
		if errors.Is(err, syscall.EAGAIN) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	t.Error("as many as try may wait")
}

// Another user is sent away, also where he can reach the socket.
func TestSocketPeer(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user: only root can be somebody else")
	}
	top, err := os.MkdirTemp("/var/tmp", "terminal-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(top)
	dir, err := os.Open(top)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	socket, err := listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	at := filepath.Join(top, SocketName)
	for path, mode := range map[string]os.FileMode{top: 0o755, at: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	connect := func(uid int) (conn *os.File, err error) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // for good: the thread ends, and who it was with it
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
				err = errno
				return
			}
			var fd int
			if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err == nil {
				conn, err = os.NewFile(uintptr(fd), "conn"), unix.Connect(fd, &unix.SockaddrUnix{Name: at})
			}
		}()
		<-done
		return conn, err
	}
	other, err := connect(1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	own, err := connect(0)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	// Who came first is not let in; who came second is.
	conn, err := accept(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := say(own, sayKeys, []byte("own")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, text, err := hear(conn, make([]byte, 64)); string(text) != "own" {
		t.Errorf("%q is heard, %v", text, err)
	}
	_ = other.SetReadDeadline(time.Now().Add(patience))
	if _, _, err := hear(other, make([]byte, 64)); !errors.Is(err, io.EOF) {
		t.Errorf("another user hears %v", err)
	}
}
