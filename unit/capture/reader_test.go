package capture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func openReader(t testing.TB, dir string, s Stream) *Reader {
	t.Helper()
	d := openDir(t, dir)
	r, err := Open(d, s)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	t.Cleanup(func() { r.Close() })
	return r
}

// readAll reads from an offset to an end, checks every byte, and returns how
// many there were.
func readAll(t testing.TB, r *Reader, offset, end int64) (got int64) {
	t.Helper()
	buf := make([]byte, 10_000)
	for offset < end {
		n, from, err := r.ReadAt(buf, offset)
		if from < offset || err != nil && err != io.EOF || n == 0 && err == nil {
			t.Fatalf("ReadAt %d: %d, %d, %v", offset, n, from, err)
		}
		for i, c := range buf[:n] {
			if c != value(from+int64(i)) {
				t.Fatalf("ReadAt %d: byte %d of those from %d on is wrong", offset, i, from)
			}
		}
		got += int64(n)
		offset = from + int64(n)
	}
	return got
}

// made makes files by their names and contents.
func made(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadAt(t *testing.T) {
	dir := made(t, map[string]string{
		"stdout": "0123", segmentName(Stdout, 4): "45", segmentName(Stdout, 10): "abc", segmentName(Stdout, 13): "",
		segmentName(Stdout, 20): "", endName(Stdout, 25): "", "stderr": "no", "job.json": "{}", "lock": "",
		"stdout.": "x", "stdout.7": "x", "stdout.00000000000000007": "x", "stdout.000000000000000x": "x", "stdoutx": "x",
		"stdout.9999999999999999999": "x", ".stdout": "x", strings.Repeat("n", 255): "x", "stdout." + strings.Repeat("9", 240): "x",
	})
	r := openReader(t, dir, Stdout)
	if size, closed, err := r.Size(); size != 25 || !closed || err != nil {
		t.Errorf("Size: %d, %v, %v", size, closed, err)
	}
	for _, c := range []struct {
		offset int64
		data   string
		from   int64
		err    error
	}{
		{0, "0123", 0, nil}, {2, "23", 2, nil}, {4, "45", 4, nil}, {5, "5", 5, nil}, {6, "abc", 10, nil}, {9, "abc", 10, nil},
		{12, "c", 12, nil}, {13, "", 25, io.EOF}, {14, "", 25, io.EOF}, {25, "", 25, io.EOF},
	} {
		buf := make([]byte, 100)
		n, from, err := r.ReadAt(buf, c.offset)
		if string(buf[:n]) != c.data || from != c.from || err != c.err {
			t.Errorf("ReadAt %d: %q, %d, %v; want %q, %d, %v", c.offset, buf[:n], from, err, c.data, c.from, c.err)
		}
	}
	for _, offset := range []int64{26, 1 << 62, -1} {
		var bad *CursorError
		if n, _, err := r.ReadAt(make([]byte, 9), offset); n != 0 || !errors.As(err, &bad) || bad.Offset != offset {
			t.Errorf("ReadAt %d: %d, %v; want a CursorError", offset, n, err)
		}
	}
	if n, from, err := r.ReadAt(nil, 7); n != 0 || from != 10 || err != nil {
		t.Errorf("ReadAt of nothing: %d, %d, %v", n, from, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	if _, err := Open(openDir(t, t.TempDir()), Stdout); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Open of nothing: %v", err)
	}
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, make := range map[string]func(path string) error{
		"link":          func(p string) error { return os.Symlink(outside, p) },
		"dangling link": func(p string) error { return os.Symlink("/nonexistent", p) },
		"fifo":          func(p string) error { return unix.Mkfifo(p, 0o600) },
		"directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"readable": func(p string) error {
			return errors.Join(os.WriteFile(p, nil, 0o600), os.Chmod(p, 0o644))
		},
		"foreign": func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o600), os.Chown(p, 12345, 0)) },
	} {
		if name == "foreign" && os.Geteuid() != 0 {
			continue // only root can make one
		}
		for _, file := range []string{"stdout", segmentName(Stdout, 3), endName(Stdout, 9)} {
			dir := t.TempDir()
			if err := make(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
			var bad *RefusedError
			if _, err := Open(openDir(t, dir), Stdout); !errors.As(err, &bad) || bad.Name != file {
				t.Errorf("%s %s: %v; want a RefusedError", name, file, err)
			}
			if _, err := Open(openDir(t, dir), Stderr); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s %s, and the other stream: %v", name, file, err)
			}
		}
	}
	// Put there after the listing.
	dir := made(t, map[string]string{"stdout": "abc"})
	for _, put := range []func(string) error{
		func(p string) error { return os.Symlink(outside, p) }, func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		r := openReader(t, dir, Stdout)
		path := filepath.Join(dir, "stdout")
		os.Remove(path)
		if err := put(path); err != nil {
			t.Fatal(err)
		}
		var bad *RefusedError
		if n, _, err := r.ReadAt(make([]byte, 9), 0); n != 0 || !errors.As(err, &bad) {
			t.Errorf("exchanged: %d, %v; want a RefusedError", n, err)
		}
		os.Remove(path)
		os.WriteFile(path, []byte("abc"), 0o600)
	}
	many := map[string]string{}
	for i := range maxListed + 1 {
		many[segmentName(Stdout, int64(i))] = ""
	}
	if _, err := Open(openDir(t, made(t, many)), Stdout); err == nil {
		t.Error("Open of any number of files")
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat("x", 3*tailBlock)
	for _, c := range []struct {
		files map[string]string
		lines int
		want  int64
	}{
		{map[string]string{"stdout": "a\nb\nc\n"}, 0, 6},
		{map[string]string{"stdout": "a\nb\nc\n"}, 1, 4},
		{map[string]string{"stdout": "a\nb\nc\n"}, 2, 2},
		{map[string]string{"stdout": "a\nb\nc\n"}, 3, 0},
		{map[string]string{"stdout": "a\nb\nc\n"}, 9, 0},
		{map[string]string{"stdout": "a\nb\nc"}, 1, 4},
		{map[string]string{"stdout": "a\nb\nc"}, 2, 2},
		{map[string]string{"stdout": "\n\n\n"}, 1, 2},
		{map[string]string{"stdout": ""}, 5, 0},
		{map[string]string{"stdout": "a\nb", segmentName(Stdout, 3): "b\nc\n"}, 1, 5},
		{map[string]string{"stdout": "a\nb", segmentName(Stdout, 3): "b\nc\n"}, 2, 2},
		{map[string]string{"stdout": "a\nb\n", segmentName(Stdout, 10): "c\nd\n"}, 2, 4},
		{map[string]string{"stdout": "a\nb\n", segmentName(Stdout, 10): "c\nd\n"}, 3, 2},
		{map[string]string{"stdout": "a\nb\n", endName(Stdout, 10): ""}, 1, 2},
		{map[string]string{"stdout": "a\nb\n", endName(Stdout, 10): ""}, 0, 10},
		{map[string]string{"stdout": long}, 1, 0},
		{map[string]string{"stdout": "a\n" + long}, 1, 2},
		{map[string]string{"stdout": "a\n" + long + "\nb"}, 2, 2},
		{map[string]string{"stdout": "a\n", segmentName(Stdout, 50): long + "\nb"}, 2, 2},
	} {
		r := openReader(t, made(t, c.files), Stdout)
		if got, err := r.Tail(c.lines); got != c.want || err != nil {
			t.Errorf("Tail(%d) of %.80q: %d, %v; want %d", c.lines, c.files, got, err, c.want)
		}
	}
}

// A reader beside a capture that rotates as fast as it can gets right bytes in
// order, and ends.
func TestReadWhileItRotates(t *testing.T) {
	for _, limit := range []int64{1, 40, 5000, 200_000, 3 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir := t.TempDir()
			r, w := pipe(t)
			c := start(t, dir, Config{Stdout: r, Max: limit})
			r.Close()
			total := 4<<20 + 3*limit
			go func() {
				defer w.Close()
				feed(t, w, 0, total, 65536)
			}()
			rd := openReader(t, dir, Stdout)
			got, rounds, last := int64(0), 0, int64(0)
			for closed := false; !closed; rounds++ {
				var size int64
				var err error
				if size, closed, err = rd.Size(); err != nil || size < last {
					t.Fatalf("Size: %d after %d, %v", size, last, err)
				}
				got += readAll(t, rd, last, size)
				last = max(last, size)
				for { // what came meanwhile
					buf := make([]byte, 1000)
					n, from, err := rd.ReadAt(buf, last)
					if err == io.EOF || err != nil {
						if err != io.EOF {
							t.Fatal(err)
						}
						last = from
						break
					}
					if !bytes.Equal(buf[:n], values(from, int64(n))) {
						t.Fatalf("bytes from %d on are wrong", from)
					}
					got, last = got+int64(n), from+int64(n)
					if n > 0 && rounds%2 == 0 {
						break
					}
				}
			}
			<-c.Ended()
			if last != total {
				t.Errorf("it ends at %d", last)
			}
			checkKept(t, dir, Stdout, limit, total)
			t.Logf("%d of %d bytes in %d rounds", got, total, rounds)
		})
	}
}

func TestFollow(t *testing.T) {
	for _, silent := range []bool{silentSplice(), true} {
		before := descriptors(t)
		dir := t.TempDir()
		out, outW := pipe(t)
		src, err := newSource(openDir(t, dir), out, Stdout)
		if err != nil {
			t.Fatal(err)
		}
		src.silent = silent
		src.open(1000, time.Now())
		ran := make(chan struct{})
		go func() {
			defer close(ran)
			src.run()
		}()
		w, err := NewWatch(openDir(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		rd := openReader(t, dir, Stdout)
		at, ctx := int64(0), context.Background()
		for i := range int64(300) {
			feed(t, outW, at, i%50+1, 7)
			for want := at + i%50 + 1; at < want; {
				buf := make([]byte, 100)
				n, from, err := rd.ReadAt(buf, at)
				if err == io.EOF && from == at {
					if err := w.Wait(ctx); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if err != nil || from != at || !bytes.Equal(buf[:n], values(from, int64(n))) {
					t.Fatalf("at %d: %d from %d on, %v", at, n, from, err)
				}
				at += int64(n)
			}
		}
		outW.Close()
		for {
			_, closed, err := rd.Size()
			if err != nil {
				t.Fatal(err)
			}
			if closed {
				break
			}
			if err := w.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		rd.Close()
		<-ran // a source says that it is closed before it closes what it reads
		out.Close()
		if after := descriptors(t); after > before+2 { // two directories that the test's end closes
			t.Errorf("%d descriptors, before %d", after, before)
		}
	}
}

func TestWatchEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "job")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := NewWatch(openDir(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ended, cancel := context.WithCancel(context.Background())
	waited := make(chan error)
	go func() { waited <- w.Wait(ended) }()
	// What is not of the output wakes nobody.
	os.WriteFile(filepath.Join(dir, "job.json"), nil, 0o600)
	os.WriteFile(filepath.Join(dir, strings.Repeat("n", 255)), nil, 0o600)
	cancel()
	if err := <-waited; err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	if err := w.Wait(ended); err != context.Canceled {
		t.Errorf("cancelled before: %v", err)
	}
	os.WriteFile(filepath.Join(dir, "stderr"), []byte("x"), 0o600)
	if err := w.Wait(context.Background()); err != nil {
		t.Errorf("after a cancelled one: %v", err)
	}
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if err := w.Wait(context.Background()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory moved: %v", err)
	}
	go func() { waited <- w.Wait(context.Background()) }()
	w.Close()
	if err := <-waited; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
