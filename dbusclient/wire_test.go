package dbusclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// peer is the other side of a wire.
type peer struct {
	t    *testing.T
	conn *net.UnixConn
	wire *wire
	got  chan *dbus.Message
}

// connect makes a wire to a peer that answers the authentication with words.
func connect(t *testing.T, words string) (*peer, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := &peer{t: t, got: make(chan *dbus.Message, 64)}
	w, err := dialWire(path, os.Getuid(), func(m *dbus.Message) { p.got <- m })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	p.wire = w
	if p.conn, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.conn.Close() })
	p.write([]byte(words))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return p, w.start(ctx)
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.t.Error(err)
	}
}

// read returns what came, once it ends with want, and the descriptors in it.
func (p *peer) read(enough func([]byte) bool) ([]byte, int) {
	p.t.Helper()
	var got []byte
	fds := 0
	p.conn.SetReadDeadline(time.Now().Add(time.Minute))
	for !enough(got) {
		b, oob := make([]byte, 4096), make([]byte, 256)
		n, on, _, _, err := p.conn.ReadMsgUnix(b, oob)
		if err != nil {
			p.t.Fatalf("after %q: %v", got, err)
		}
		got = append(got, b[:n]...)
		if msgs, err := unix.ParseSocketControlMessage(oob[:on]); err == nil {
			for _, m := range msgs {
				if list, err := unix.ParseUnixRights(&m); err == nil {
					fds += len(list)
					for _, fd := range list {
						unix.Close(fd)
					}
				}
			}
		}
	}
	return got, fds
}

const consents = "OK 0123456789abcdef0123456789abcdef\r\nAGREE_UNIX_FD\r\n"

func encode(t *testing.T, m dbus.Message) []byte {
	t.Helper()
	m.Serial = 77
	b, _, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func replyTo(t *testing.T, serial uint32, body ...any) []byte {
	return encode(t, dbus.Message{Kind: dbus.Reply, Body: body, ReplySerial: serial, Sender: ":1.7"})
}

func aSignal(t *testing.T, body ...any) []byte {
	return encode(t, dbus.Message{Kind: dbus.Signal, Body: body, Path: "/x", Interface: "a.b", Member: "C"})
}

func TestWireAuthenticatesInOnePiece(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := p.read(func(b []byte) bool { return bytes.HasSuffix(b, []byte("BEGIN\r\n")) })
	want := fmt.Sprintf("\x00AUTH EXTERNAL %x\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n", strconv.Itoa(os.Getuid()))
	if string(got) != want {
		t.Errorf("it sent %q, want %q", got, want)
	}
}

func TestWireRefusesOtherAnswers(t *testing.T) {
	for _, words := range []string{"REJECTED EXTERNAL\r\n", "OK 12\r\nERROR\r\n", "HTTP/1.1 400 Bad Request\r\n\r\n", string(bytes.Repeat([]byte("x"), 5<<10))} {
		if _, err := connect(t, words); err == nil {
			t.Errorf("%.20q was taken for a consent", words)
		}
	}
}

func TestWireGivesUpOnASilentPeer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w, err := dialWire(path, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.start(ctx); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
}

// Replies come in any order, in any pieces, and between signals.
func TestWireReplies(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{wire: p.wire}
	a, b := l.send(t.Context(), "/a", "i.f.A"), l.send(t.Context(), "/b", "i.f.B", "argument")
	go func() {
		all := append(aSignal(t, "first"), replyTo(t, b.serial, "for b")...)
		all = append(append(all, replyTo(t, 4711, "for nobody")...), aSignal(t, "second")...)
		all = append(all, replyTo(t, a.serial, uint32(5))...)
		for _, c := range all {
			p.write([]byte{c})
		}
	}()
	var n uint32
	var s string
	if err := a.wait(&n); err != nil || n != 5 {
		t.Errorf("a: %d, %v", n, err)
	}
	if err := b.wait(&s); err != nil || s != "for b" || b.sender != ":1.7" {
		t.Errorf("b: %q of %q, %v", s, b.sender, err)
	}
	for _, want := range []string{"first", "second"} {
		if got := <-p.got; got.Body[0] != want || got.Interface+"."+got.Member != "a.b.C" || got.Path != "/x" {
			t.Errorf("signal %+v, want %q", got, want)
		}
	}
}

func TestWireSendsTogetherAndDescriptorsAlone(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	p.read(func(b []byte) bool { return bytes.HasSuffix(b, []byte("BEGIN\r\n")) })
	l := &link{wire: p.wire}
	l.send(t.Context(), "/a", "i.f.First")
	l.sendTo(t.Context(), sdName, "/b", "i.f.Second", dbus.UnixFD(0))
	last := l.send(t.Context(), "/c", "i.f.Third")
	go last.wait()
	got, fds := p.read(func(b []byte) bool { return bytes.Contains(b, []byte("Third")) })
	first, second := bytes.Index(got, []byte("First")), bytes.Index(got, []byte("Second"))
	if fds != 1 || first < 0 || second < first {
		t.Errorf("%d descriptors, First at %d, Second at %d of %q", fds, first, second, got)
	}
}

func TestWireEnds(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{wire: p.wire}
	call := l.send(t.Context(), "/a", "i.f.A")
	go p.conn.Close()
	if err := call.wait(); !isNoReply(err) {
		t.Errorf("the call: %v", err)
	}
	<-p.wire.done
	if err := l.send(t.Context(), "/a", "i.f.A").wait(); !isNoReply(err) {
		t.Errorf("a call after the end: %v", err)
	}
}

func TestWireCallGivesUp(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	call := (&link{wire: p.wire}).send(ctx, "/a", "i.f.A")
	cancel()
	if err := call.wait(); !isNoReply(err) {
		t.Errorf("the call: %v", err)
	}
	// A bus counts it until its reply comes.
	if n := len(p.wire.places); n != 1 {
		t.Errorf("%d replies are to come", n)
	}
	p.write(append(replyTo(t, call.serial, uint32(1)), aSignal(t, "behind")...))
	<-p.got
	if n := len(p.wire.places); n != 0 {
		t.Errorf("%d replies are to come", n)
	}
}

// More calls than a bus lets a connection await wait for one another, and no longer
// than they want to.
func TestWireCallsWaitForPlaces(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{wire: p.wire}
	var calls []*pending
	for range maxWaits {
		calls = append(calls, l.send(t.Context(), "/a", "i.f.A"))
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := l.send(soon, "/a", "i.f.A").wait(); !isNoReply(err) {
		t.Errorf("a call without a place: %v", err)
	}
	next := make(chan *pending)
	go func() { next <- l.send(t.Context(), "/b", "i.f.B") }()
	p.write(replyTo(t, calls[7].serial, uint32(1)))
	if err := (<-next).err; err != nil {
		t.Errorf("a call that has waited: %v", err)
	}
}

// Who awaits room for one more reply gives up in his own time.
func TestWireRoomGivesUp(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{wire: p.wire}
	for range maxWaits {
		l.send(t.Context(), "/a", "i.f.A")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- l.send(ctx, "/a", "i.f.A").wait() }()
	select {
	case err := <-done:
		if !isNoReply(err) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		p.wire.Close() // it would wait for others' replies
		t.Error("it did not give up")
	}
}

// A peer that does not read holds up nobody who closes the connection.
func TestWireCloseOfStuckWrite(t *testing.T) {
	p, err := connect(t, consents)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{wire: p.wire}
	stuck := make(chan error, 1)
	go func() { stuck <- l.send(t.Context(), "/a", "i.f.A", make([]byte, 8<<20)).wait() }()
	for p.wire.mu.TryLock() { // until it is in the write
		p.wire.mu.Unlock()
	}
	closed := make(chan struct{})
	go func() { p.wire.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		p.conn.Close()
		t.Error("the connection was not closed")
	}
	if err := <-stuck; !isNoReply(err) {
		t.Error(err)
	}
}
