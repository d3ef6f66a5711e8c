package terminal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds every wait; a test that waits this long has failed.
const patience = time.Minute

// pair is a pseudo-terminal that passes every key on, both of whose ends can be
// read with a deadline.
func pair(t *testing.T) (master, slave *os.File) {
	t.Helper()
	p, err := Open(Size{33, 99})
	if err != nil {
		t.Fatal(err)
	}
	master, slave = p.Master, p.Slave
	if err := unix.SetNonblock(int(slave.Fd()), true); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(slave.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	slave.Close()
	slave = os.NewFile(uintptr(fd), "pts")
	t.Cleanup(func() { master.Close(); slave.Close() })
	return master, slave
}

// other is another descriptor of a file, which a relay may close.
func other(t *testing.T, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "pts")
}

func modeOf(t *testing.T, f *os.File) unix.Termios {
	t.Helper()
	m, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

// gets reads exactly a text.
func gets(t *testing.T, f *os.File, want string) {
	t.Helper()
	f.SetReadDeadline(time.Now().Add(patience))
	b := make([]byte, len(want))
	if n, err := io.ReadFull(f, b); err != nil || string(b) != want {
		t.Fatalf("%q, %v; want %q", b[:n], err, want)
	}
}

func TestOpen(t *testing.T) {
	master, slave := pair(t)
	if !Is(master) || !Is(slave) || Is(nil) {
		t.Error("it is no terminal")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if size, ok := SizeOf(nil, null, slave); !ok || size != (Size{33, 99}) {
		t.Errorf("its size is %v, %v", size, ok)
	}
	if err := SetSize(master, Size{1, 2}); err != nil {
		t.Error(err)
	}
	if size, ok := SizeOf(slave); !ok || size != (Size{1, 2}) {
		t.Errorf("its size is %v, %v", size, ok)
	}
	if _, ok := SizeOf(null); ok || Is(null) {
		t.Error("/dev/null is a terminal")
	}
	if err := SetSize(null, Size{1, 2}); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("the size of /dev/null: %v", err)
	}
	// Without a terminal a new one does not become this process's.
	if f, err := os.Open("/dev/tty"); err == nil {
		f.Close()
	} else if !errors.Is(err, unix.ENXIO) {
		t.Errorf("/dev/tty: %v", err)
	}
}

func TestRaw(t *testing.T) {
	_, slave := pair(t)
	before := modeOf(t, slave)
	r, err := NewRaw(slave, slave)
	if err != nil {
		t.Fatal(err)
	}
	r.Leave() // before Enter it does nothing
	for range 2 {
		if err := r.Enter(); err != nil {
			t.Fatal(err)
		}
		if err := r.Enter(); err != nil {
			t.Fatal(err)
		}
		m := modeOf(t, slave)
		if m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG|unix.IEXTEN) != 0 || m.Oflag&unix.OPOST != 0 || m.Iflag&(unix.ICRNL|unix.IXON) != 0 {
			t.Errorf("it is not raw: %+v", m)
		}
		r.Leave()
		r.Leave()
		if after := modeOf(t, slave); after != before {
			t.Errorf("the mode is %+v, was %+v", after, before)
		}
	}
	// Where keys come from elsewhere, they are left as they are.
	if r, err = NewRaw(nil, slave); err != nil {
		t.Fatal(err)
	}
	if err := r.Enter(); err != nil {
		t.Fatal(err)
	}
	if m := modeOf(t, slave); m.Lflag != before.Lflag || m.Iflag != before.Iflag || m.Oflag != before.Oflag&^unix.OPOST {
		t.Errorf("the mode is %+v, was %+v", m, before)
	}
	r.Leave()
	if after := modeOf(t, slave); after != before {
		t.Errorf("the mode is %+v, was %+v", after, before)
	}
}

// relayed is a relay between a user's terminal and a job's.
type relayed struct {
	*Relay
	user, job     *os.File // the master of the one and the slave of the other
	theirs        *os.File // the user's own end
	master, slave *os.File
}

func relay(t *testing.T, keys string) *relayed {
	t.Helper()
	r := &relayed{}
	r.user, r.theirs = pair(t)
	r.master, r.job = pair(t)
	r.slave = r.job
	for _, f := range []*os.File{r.theirs, r.job} {
		raw, err := NewRaw(f, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := raw.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	k, err := ParseKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	if r.Relay, err = Begin(RelayConfig{End: &PTY{r.master, other(t, r.slave)}, In: r.theirs, Out: r.theirs, Keys: k}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRelay(t *testing.T) {
	r := relay(t, "^Aq")
	for range 3 {
		io.WriteString(r.user, "typed\x03\x04")
		gets(t, r.job, "typed\x03\x04")
		io.WriteString(r.job, "printed\n")
		gets(t, r.user, "printed\n")
	}
	// During a pause keys are left to others, and nothing is lost.
	r.Pause()
	io.WriteString(r.user, "later")
	io.WriteString(r.job, "meanwhile")
	gets(t, r.user, "meanwhile")
	if readable(r.job, 0) {
		t.Error("a key was passed on")
	}
	r.Resume()
	gets(t, r.job, "later")
	// What begins as the keys that leave does comes a little later.
	io.WriteString(r.user, "\x01")
	gets(t, r.job, "\x01")
	io.WriteString(r.user, "\x01\x01x")
	gets(t, r.job, "\x01\x01x")
	io.WriteString(r.user, "x\x01qy")
	gets(t, r.job, "x")
	select {
	case <-r.Left():
	case <-time.After(patience):
		t.Fatal("the keys that leave are not seen")
	}
	r.Resume() // it stays left
	io.WriteString(r.user, "z")
	r.Finish(nil)
	if readable(r.job, 0) {
		b := make([]byte, 9)
		n, err := r.job.Read(b)
		if n > 0 || err == nil {
			t.Errorf("what came after was passed on: %q", b[:n])
		}
	}
}

// Finish undoes what the output has made of the screen, of a terminal alone.
func TestRelayRestores(t *testing.T) {
	for printed, undone := range map[string]string{
		"plain\x1b[1mbold\x1b[m":          "",
		"\x1b[?1049h\x1b[?25lfull screen": "\x1b[?25h\x1b[?1049l",
		"\x1b[?2004h\x1b]0;a ti":          "\x18\x1b[?2004l",
		"\x1b[31":                         "\x18",
	} {
		r := relay(t, "none")
		io.WriteString(r.job, printed)
		gets(t, r.user, printed)
		r.Finish(nil)
		io.WriteString(r.theirs, "end")
		gets(t, r.user, undone+"end")
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	master, slave := pair(t)
	r, err := Begin(RelayConfig{End: &PTY{master, other(t, slave)}, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(slave, "\x1b[?25l")
	r.Finish(nil)
	out.Close()
	if b, err := io.ReadAll(in); err != nil || string(b) != "\x1b[?25l" {
		t.Errorf("a pipe is given %q, %v", b, err)
	}
}

// Finish prints all that was written before it, and does not wait for ever for
// who does not read.
func TestRelayFinish(t *testing.T) {
	r := relay(t, "none")
	text := strings.Repeat("0123456789abcde\n", 64<<10) // 1 MiB
	written := make(chan error, 1)
	go func() {
		_, err := io.WriteString(r.job, text)
		r.Finish(nil)
		written <- err
	}()
	gets(t, r.user, text)
	if err := <-written; err != nil {
		t.Error(err)
	}
	if _, err := r.job.Write([]byte("x")); !errors.Is(err, syscall.EIO) {
		t.Errorf("the job's terminal is there after it: %v", err)
	}

	r = relay(t, "none")
	r.job.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	if n, err := io.WriteString(r.job, text); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes found room: %v", n, err)
	}
	giveUp, done := make(chan struct{}), make(chan struct{})
	go func() { r.Finish(giveUp); close(done) }()
	select {
	case <-done:
		t.Error("it did not wait for who reads")
	case <-time.After(100 * time.Millisecond):
	}
	close(giveUp)
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("it did not give up")
	}
}

// A key that the job does not take holds up neither a pause nor the end.
func TestRelayHeldUp(t *testing.T) {
	r := relay(t, "none")
	r.user.SetWriteDeadline(time.Now().Add(time.Second))
	text := strings.Repeat("k", 64<<10)
	n, err := io.WriteString(r.user, text)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d keys found room: %v", n, err)
	}
	r.Pause()
	r.Resume()
	r.user.SetWriteDeadline(time.Time{})
	go io.WriteString(r.user, text[n:])
	gets(t, r.job, text)
	r.Finish(nil)
}

// Who cannot print any more hangs up on the job, as does a terminal that hangs
// up on us.
func TestRelayHangsUp(t *testing.T) {
	in, keys, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	defer keys.Close()
	reader, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	master, slave := pair(t)
	r, err := Begin(RelayConfig{End: &PTY{master, other(t, slave)}, In: in, Out: out})
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	io.WriteString(slave, "x")
	hungUp(t, slave)
	r.Finish(nil)

	at := relay(t, "none")
	at.user.Close()
	hungUp(t, at.job)
	at.Finish(nil)
}

func hungUp(t *testing.T, slave *os.File) {
	t.Helper()
	slave.SetReadDeadline(time.Now().Add(patience))
	for b := make([]byte, 64); ; {
		n, err := slave.Read(b)
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO) {
			return
		}
		if n == 0 && err != nil {
			t.Fatalf("it is not hung up: %v", err)
		}
	}
}

// The end of a pipe is read from the terminal as often as somebody reads, in the
// midst of a line too.
func TestRelayEnd(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, input := range []string{"", "line\n", "part", "line\npart"} {
		in, keys, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		master, slave := pair(t)
		r, err := Begin(RelayConfig{End: &PTY{master, other(t, slave)}, In: in, Out: null})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(keys, input)
		keys.Close()
		slave.SetReadDeadline(time.Now().Add(patience))
		var got bytes.Buffer
		for ends := 0; ends < 3; {
			b := make([]byte, 64)
			n, err := slave.Read(b)
			got.Write(b[:n])
			if n == 0 && errors.Is(err, io.EOF) {
				ends++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if got.String() != input {
			t.Errorf("%q came as %q", input, got.String())
		}
		r.Finish(nil)
		in.Close()
	}
}
