package capture

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Another process may hold the pipe for ever, silent or not.
func TestDrain(t *testing.T) {
	t.Run("silent", func(t *testing.T) {
		dir := t.TempDir()
		r, w := pipe(t)
		c := start(t, dir, Config{Stdout: r, Max: 1000})
		feed(t, w, 0, 700, 700)
		c.Drain(0)
		<-c.Ended()
		checkKept(t, dir, Stdout, 1000, 700)
		if c.Stats().Stdout.Closed {
			t.Error("it is called closed")
		}
		if _, err := os.Stat(filepath.Join(dir, endName(Stdout, 700))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("its end is on disk: %v", err)
		}
	})
	t.Run("noisy", func(t *testing.T) {
		dir := t.TempDir()
		r, w := pipe(t)
		c := start(t, dir, Config{Stdout: r, Max: 100_000})
		r.Close()
		written := make(chan int64)
		go func() {
			for n := int64(0); ; {
				k, err := w.Write(values(n, 5000))
				if n += int64(k); err != nil {
					written <- n
					return
				}
			}
		}()
		until(t, c, "output", func(st Stats) bool { return st.Stdout.Seen > 300_000 })
		c.Drain(20 * time.Millisecond)
		<-c.Ended()
		st := c.Stats().Stdout
		if n := <-written; st.Closed || n < st.Seen {
			t.Errorf("%d bytes were written: %+v", n, st)
		}
		checkKept(t, dir, Stdout, 100_000, st.Seen)
	})
	t.Run("ended", func(t *testing.T) {
		dir := t.TempDir()
		r, w := pipe(t)
		c := start(t, dir, Config{Stdout: r, Max: 1000})
		c.Drain(time.Hour)
		feed(t, w, 0, 10, 10)
		w.Close()
		<-c.Ended()
		c.Close()
		c.Close()
		if !c.Stats().Stdout.Closed {
			t.Error("the end was not seen")
		}
	})
	t.Run("closed with its end", func(t *testing.T) {
		dir := t.TempDir()
		r, w := pipe(t)
		c := start(t, dir, Config{Stdout: r, Max: 1000})
		feed(t, w, 0, 900, 900)
		w.Close()
		c.Close()
		if st := c.Stats().Stdout; !st.Closed || st.Seen != 900 {
			t.Errorf("%+v", st)
		}
	})
}

// Nothing is kept, and how much came is on disk all the same, also while it
// comes.
func TestCountOnly(t *testing.T) {
	dir := t.TempDir()
	r, w := pipe(t)
	c := start(t, dir, Config{Stdout: r, Max: 0})
	feed(t, w, 0, 100, 10)
	at := func(want int64) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			_, sum, position := onDisk(t, dir, Stdout)
			if sum != 0 {
				t.Fatalf("%d bytes on disk", sum)
			}
			if position == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the position is %d, want %d", position, want)
			}
		}
	}
	at(100)
	feed(t, w, 100, 11, 1)
	at(111)
	w.Close()
	<-c.Ended()
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("the files are %v", entries)
	}
}

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	r, _ := pipe(t)
	before := descriptors(t)
	if _, err := Start(openDir(t, dir), Config{Stdout: r, Max: -1}); err == nil {
		t.Error("a negative cap")
	}
	if err := os.WriteFile(filepath.Join(dir, segmentName(Stderr, 7)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := Start(openDir(t, dir), Config{Stdout: r, Stderr: openDir(t, dir), Max: 1}); !errors.Is(err, fs.ErrExist) {
			t.Errorf("over another capture: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "stdout")); err == nil {
		t.Error("it began in spite of that")
	}
	if after := descriptors(t); after > before+21 {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

// On kernels where splice makes no event another one is made.
func TestSilentSplice(t *testing.T) {
	dir := t.TempDir()
	r, w := pipe(t)
	src, err := newSource(openDir(t, dir), r, Stdout)
	if err != nil {
		t.Fatal(err)
	}
	src.silent = true
	src.open(1000, time.Now())
	feed(t, w, 0, 10, 10)
	raw := int(r.Fd())
	unix.SetNonblock(raw, true)
	for range 2 {
		if _, err := src.step(raw, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if src.untouched || src.touchedAt.IsZero() || src.shelf.off != 10 {
		t.Errorf("untouched %v, at %v, %d bytes", src.untouched, src.touchedAt, src.shelf.off)
	}
	src.close()
}

// Who reads much rests now and then, and who reads little does not.
func TestRest(t *testing.T) {
	for bytes, want := range map[int]int32{1 << 10: 0, 1 << 20: 8} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		var rests atomic.Int32
		c, err := Start(dir, Config{Stdout: r, Max: 4 << 10, Rest: func() { rests.Add(1) }, RestBytes: 64 << 10})
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, bytes)); err != nil {
			t.Fatal(err)
		}
		w.Close()
		<-c.Ended()
		if n := rests.Load(); n < want/4 || n > 2*want {
			t.Errorf("it rested %d times in %d bytes, about %d were wanted", n, bytes, want)
		}
	}
}
