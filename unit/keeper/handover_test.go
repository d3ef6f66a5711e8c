package keeper

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/unitward/unitward/unit"
)

func TestHandoverRoundTrip(t *testing.T) {
	dir := t.TempDir()
	file, status := dir+"/handover", dir+"/status"
	bytesOf := rapid.SliceOf(rapid.ByteRange(1, 255)) // a string of the kernel's has no zero byte
	lists := rapid.SliceOf(rapid.Custom(func(t *rapid.T) string { return string(bytesOf.Draw(t, "bytes")) }))
	rapid.Check(t, func(t *rapid.T) {
		s := &unit.Spec{
			Path: "/" + string(bytesOf.Draw(t, "path")), Dir: "/" + string(bytesOf.Draw(t, "dir")),
			Command: append([]string{"\xff\n$"}, lists.Draw(t, "argv")...), Umask: uint32(rapid.IntRange(0, 0o777).Draw(t, "umask")),
		}
		for i := range s.Rlimits {
			s.Rlimits[i] = unit.Rlimit{Soft: rapid.Uint64().Draw(t, "soft"), Hard: ^uint64(0)}
		}
		h := NewHandover(s, lists.Draw(t, "env"), status)
		if err := h.Write(file); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(status)
		if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		if info, err := os.Stat(status); err != nil || info.Mode() != fs.ModeNamedPipe|0o600 {
			t.Fatalf("%v, %v", info, err)
		}
		got, err := TakeHandover(file)
		if err != nil {
			t.Fatal(err)
		}
		same := bytes.Equal(got.Path, h.Path) && bytes.Equal(got.Dir, h.Dir) && got.Umask == h.Umask && got.Status == status &&
			reflect.DeepEqual(texts(got.Argv), s.Command) && reflect.DeepEqual(texts(got.Env), texts(h.Env)) && reflect.DeepEqual(got.Rlimits, h.Rlimits)
		if !same {
			t.Fatalf("%+v became %+v", h, got)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the file is still there: %v", err)
		}
	})
}

func TestWriteTakesNoExistingFile(t *testing.T) {
	dir := t.TempDir()
	h := &Handover{Path: []byte("/x"), Argv: slices([]string{"x"}), Status: dir + "/status"}
	if err := os.Symlink(dir+"/elsewhere", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{dir + "/link", dir} {
		if err := h.Write(file); err == nil {
			t.Errorf("Write to %s", file)
		}
	}
	if _, err := os.Lstat(dir + "/elsewhere"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Write went through a link")
	}
	if err := os.WriteFile(dir+"/status", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := h.Write(dir + "/file"); err == nil {
		t.Error("Write over an existing status")
	}
	if _, err := os.Lstat(dir + "/file"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a Write that failed leaves its file")
	}
	h.Env = [][]byte{make([]byte, maxHandover)}
	if err := h.Write(dir + "/big"); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("Write of more than take reads: %v", err)
	}
}

func TestTakeRefuses(t *testing.T) {
	const good = `{"path":"L3g=","argv":["eA=="]}`
	write := func(content string, mode fs.FileMode) func(string) error {
		return func(f string) error { return errors.Join(os.WriteFile(f, []byte(content), mode), os.Chmod(f, mode)) }
	}
	for _, c := range []struct {
		name string
		make func(string) error
		says string
	}{
		{"missing", func(string) error { return nil }, "no such file"},
		{"readable", write(good, 0o644), "not a private file"},
		{"writable", write(good, 0o620), "not a private file"},
		{"foreign", func(f string) error { return errors.Join(write(good, 0o600)(f), os.Chown(f, 12345, 0)) }, "not a private file"},
		{"link", func(f string) error { return errors.Join(write(good, 0o600)(f+"2"), os.Symlink(f+"2", f)) }, "too many levels"},
		{"fifo", func(f string) error { return syscall.Mkfifo(f, 0o600) }, "not a private file"},
		{"directory", func(f string) error { return os.Mkdir(f, 0o700) }, "not a private file"},
		{"empty", write("", 0o600), "unexpected end"},
		{"garbage", write("{]", 0o600), "invalid character"},
		{"no command", write("{}", 0o600), "no command"},
		{"no arguments", write(`{"path":"L3g="}`, 0o600), "no command"},
		{"oversized", func(f string) error { return errors.Join(write(good, 0o600)(f), os.Truncate(f, maxHandover+1)) }, "more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "foreign" && os.Geteuid() != 0 {
				t.Skip("only root can make a file of another user")
			}
			file := filepath.Join(t.TempDir(), "handover")
			if err := c.make(file); err != nil {
				t.Fatal(err)
			}
			if h, err := TakeHandover(file); err == nil || h != nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("take = %v, %v; want %q", h, err, c.says)
			}
		})
	}
}

// listen makes a FIFO and listens at it.
func listen(t *testing.T) (*Await, string) {
	t.Helper()
	status := filepath.Join(t.TempDir(), "status")
	if err := unix.Mkfifo(status, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := Listen(status)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, status
}

func never() bool { return false }

func TestExecutedWhenTheWriterDiesWithoutAWord(t *testing.T) {
	a, status := listen(t)
	if err := self("mute", status).Run(); err == nil {
		t.Fatal("the writer did not die")
	}
	if err := a.Executed(never); err != nil {
		t.Errorf("Executed: %v", err)
	}
}

func TestExecutedWhenNobodyComes(t *testing.T) {
	a, status := listen(t)
	asked := 0
	if err := a.Executed(func() bool { asked++; return asked == 3 }); err != nil || asked != 3 {
		t.Errorf("Executed: %v after %d questions", err, asked)
	}
	a.Close()
	if _, err := os.Lstat(status); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Close left the FIFO: %v", err)
	}
}

// The word can come between the last look at the FIFO and the question
// whether anybody is left to speak.
func TestExecutedHearsTheLastWord(t *testing.T) {
	a, status := listen(t)
	err := a.Executed(func() bool {
		if err := os.WriteFile(status, []byte(`{"op":"exec","errno":2}`), 0); err != nil {
			t.Fatal(err)
		}
		return true
	})
	var why *BecomeError
	if !errors.As(err, &why) || why.Op != "exec" || why.Errno != syscall.ENOENT || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Executed: %v, want the word", err)
	}
}

func TestExecutedIgnoresGarbage(t *testing.T) {
	a, status := listen(t)
	w, err := os.OpenFile(status, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.WriteString("]")
	w.Close()
	if err := a.Executed(never); err != nil {
		t.Errorf("Executed: %v", err)
	}
	if _, err := Listen(status + "-gone"); err == nil {
		t.Error("Listen at nothing")
	}
}
