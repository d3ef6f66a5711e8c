package terminal

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// held is a terminal with a holder, and the job's end of it.
type held struct {
	*Holder
	t   *testing.T
	dir string
	job *os.File
}

func hold(t *testing.T, tee *os.File) *held {
	t.Helper()
	h := &held{t: t, dir: filepath.Join(t.TempDir(), strings.Repeat("d", 120))}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	master, job := pair(t)
	h.job = job
	raw, err := NewRaw(job, job)
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Enter(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if h.Holder, err = Hold(&PTY{master, other(t, job)}, dir, tee); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func (h *held) attach(v Visit) (*Remote, error) {
	h.t.Helper()
	dir, err := os.Open(h.dir)
	if err != nil {
		h.t.Fatal(err)
	}
	defer dir.Close()
	r, err := Attach(dir, v)
	if err == nil {
		h.t.Cleanup(func() { r.Close() })
	}
	return r, err
}

// comes attaches, and wants to type or not.
func (h *held) comes(v Visit, writes bool) *Remote {
	h.t.Helper()
	r, err := h.attach(v)
	if err != nil {
		h.t.Fatal(err)
	}
	if r.Writes() != writes {
		h.t.Fatalf("%+v: it types: %v", v, r.Writes())
	}
	return r
}

// sees reads until a text has come, and returns all of it.
func sees(t *testing.T, r *Remote, want string) string {
	t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(patience))
	var got strings.Builder
	for b := make([]byte, 4096); !strings.HasSuffix(got.String(), want); {
		n, err := r.Read(b)
		got.Write(b[:n])
		if err != nil {
			s := got.String()
			t.Fatalf("%v after %q; want %q", err, s[max(0, len(s)-200):], want)
		}
	}
	return got.String()
}

// ends reads to the end.
func ends(t *testing.T, r *Remote) string {
	t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestHolder(t *testing.T) {
	h := hold(t, nil)
	io.WriteString(h.job, "before\r\n")
	first := h.comes(Visit{Write: true, Size: Size{40, 120}}, true)
	if got := sees(t, first, "before\r\n"); got != "\x1b[mbefore\r\n" {
		t.Errorf("it is shown %q", got)
	}
	first.Resize(Size{7, 0}) // a window that does not know its width
	io.WriteString(first, "typed")
	gets(t, h.job, "typed")
	if size, _ := SizeOf(h.job); size != (Size{40, 120}) {
		t.Errorf("the size is %v", size)
	}
	// Others see the same, and type nothing.
	reader := h.comes(Visit{Size: Size{10, 10}}, false)
	second := h.comes(Visit{Write: true, Size: Size{50, 130}}, false)
	io.WriteString(h.job, "all\r\n")
	for _, r := range []*Remote{first, reader, second} {
		sees(t, r, "all\r\n")
	}
	io.WriteString(reader, "x")
	second.Resize(Size{51, 131})
	io.WriteString(first, "z")
	gets(t, h.job, "z")
	// Who types goes: the next who wants to does, in a window of his own size.
	first.Close()
	if !eventually(func() bool { size, _ := SizeOf(h.job); return size == Size{51, 131} }) {
		t.Fatal("the second does not come to type")
	}
	io.WriteString(second, "2")
	gets(t, h.job, "2")
	second.Resize(Size{52, 132})
	// Another takes it.
	third := h.comes(Visit{Write: true, Take: true}, true)
	io.WriteString(third, "3")
	gets(t, h.job, "3")
	third.Close()
	if !eventually(func() bool { io.WriteString(second, "4"); return readable(h.job, 10*time.Millisecond) }) {
		t.Fatal("who was displaced does not come to type again")
	}
	gets(t, h.job, "4")
	// At the end everybody has all of it.
	io.WriteString(h.job, "last\r\n")
	h.Close()
	if got := ends(t, reader); !strings.HasSuffix(got, "last\r\n") {
		t.Errorf("at the end it has seen %q", got)
	}
	if _, err := h.attach(Visit{}); !errors.Is(err, ErrNoHolder) {
		t.Errorf("after the end: %v", err)
	}
	hungUp(t, h.job)
}

// eventually is true once what it asks for is.
func eventually(is func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// What is printed is written elsewhere too, to the last of it, and whether
// anybody reads there or not.
func TestHolderTee(t *testing.T) {
	from, tee, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	h := hold(t, tee)
	text := strings.Repeat("0123456789abcde\n", 8<<10)
	go func() { io.WriteString(h.job, text); h.Finish(); h.Finish() }()
	if got, err := io.ReadAll(from); err != nil || string(got) != text {
		t.Errorf("%d bytes, %v", len(got), err)
	}

	from, tee, err = os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from.Close()
	unread := hold(t, tee)
	r := unread.comes(Visit{}, false)
	io.WriteString(unread.job, "shown")
	sees(t, r, "shown")
}

// One who reads nothing holds up nobody, neither before the end nor there, and
// sees the newest when he reads again.
func TestHolderSlow(t *testing.T) {
	h := hold(t, nil)
	slow, fast := h.comes(Visit{Size: Size{24, 80}}, false), h.comes(Visit{}, false)
	line := strings.Repeat("x", 98) + "\r\n"
	read := make(chan string, 1)
	go func() { b, _ := io.ReadAll(fast); read <- string(b) }()
	h.job.SetWriteDeadline(time.Now().Add(patience))
	for range 20000 {
		if _, err := io.WriteString(h.job, line); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(h.job, "end")
	got := sees(t, slow, "end")
	if !strings.Contains(got, "bytes are not shown") || len(got) > 1<<20 {
		t.Errorf("of %d bytes it was shown %d", 20000*len(line), len(got))
	}
	stuck := h.comes(Visit{}, false)
	for range 20000 {
		io.WriteString(h.job, line)
	}
	closed := make(chan struct{})
	go func() { h.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("it waits for one who does not read")
	}
	stuck.Close()
	if s := <-read; !strings.HasSuffix(s, line) {
		t.Errorf("who reads has %d bytes, not the last", len(s))
	}
}

// A job that takes no keys does not keep the place of one who has gone.
func TestHolderTypistGone(t *testing.T) {
	h := hold(t, nil)
	first := h.comes(Visit{Write: true}, true)
	_ = first.SetWriteDeadline(time.Now().Add(time.Second))
	if n, err := first.Write(make([]byte, 4<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d keys found room: %v", n, err)
	}
	first.Close()
	if !eventually(func() bool { r := h.must(Visit{Write: true}); defer r.Close(); return r.Writes() }) {
		t.Error("it stays the one who types")
	}
}

func (h *held) must(v Visit) *Remote {
	h.t.Helper()
	r, err := h.attach(v)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

func TestHolderFull(t *testing.T) {
	h := hold(t, nil)
	for range maxViewers {
		h.comes(Visit{}, false)
	}
	_, err := h.attach(Visit{Write: true, Take: true})
	var refused *RefusedError
	if !errors.As(err, &refused) {
		t.Errorf("%v", err)
	}
}

// What is said in another way ends a visit, and nothing else.
func TestHolderHostile(t *testing.T) {
	h := hold(t, nil)
	dir, err := os.Open(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, said := range map[string][][]byte{
		"nothing":          {},
		"keys first":       {[]byte("kls\r")},
		"no JSON":          {[]byte("h{")},
		"another version":  {[]byte(`h{"protocol":2,"write":true}`)},
		"an unknown word":  {[]byte(`h{"protocol":1,"write":true}`), []byte("?")},
		"half a size":      {[]byte(`h{"protocol":1,"write":true}`), []byte("rab")},
		"a second welcome": {[]byte(`h{"protocol":1,"write":true}`), []byte(`h{"protocol":1,"write":true}`)},
		"much":             {append([]byte("h"), make([]byte, 100<<10)...)},
	} {
		conn, err := dial(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range said {
			_, _ = conn.Write(b) // it may have been closed
		}
		if len(said) > 0 {
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			for b := make([]byte, 1+maxMessage); err == nil; {
				_, _, err = hear(conn, b)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", name, err)
			}
		}
		conn.Close()
	}
	r := h.comes(Visit{Write: true}, true)
	io.WriteString(r, "typed")
	gets(t, h.job, "typed")
}
