package capture

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func start(t testing.TB, dir string, cfg Config) *Capture {
	t.Helper()
	d := openDir(t, dir)
	c, err := Start(d, cfg)
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	t.Cleanup(c.Close)
	return c
}

// feed writes n bytes of the stream from offset on, in chunks.
func feed(t testing.TB, w io.Writer, offset, n, chunk int64) {
	t.Helper()
	for n > 0 {
		k := min(chunk, n)
		if _, err := w.Write(values(offset, k)); err != nil {
			t.Error(err)
			return
		}
		offset, n = offset+k, n-k
	}
}

// until waits for a condition of the stats.
func until(t testing.TB, c *Capture, what string, ok func(Stats) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(c.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it never came: %+v", what, c.Stats())
		}
	}
}

func descriptors(t testing.TB) int {
	t.Helper()
	// The runtime's poller takes its own two with the first pipe, for good.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.Close()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestCapture(t *testing.T) {
	before := descriptors(t)
	for _, limit := range []int64{0, 1, 2, 17, 4095, 4096, 100_000, 1 << 20, 5 << 20} {
		for _, chunk := range []int64{1, 100, 4096, 300_000} {
			t.Run(fmt.Sprintf("%d by %d", limit, chunk), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				dir := t.TempDir()
				out, outW := pipe(t)
				errs, errsW := pipe(t)
				c := start(t, dir, Config{Stdout: out, Stderr: errs, Max: limit})
				out.Close()
				errs.Close()
				n := min(3*limit+70_000, 5000*chunk)
				done := make(chan bool)
				go func() { feed(t, errsW, 0, n/2, chunk); errsW.Close(); close(done) }()
				feed(t, outW, 0, n, chunk)
				outW.Close()
				<-done
				<-c.Ended()
				for s, want := range map[Stream]int64{Stdout: n, Stderr: n / 2} {
					checkKept(t, dir, s, limit, want)
					_, sum, _ := onDisk(t, dir, s)
					st := c.Stats().Stdout
					if s == Stderr {
						st = c.Stats().Stderr
					}
					if st.Seen != want || st.Dropped != want-sum || !st.Closed || st.Err != nil || st.LastAt.IsZero() {
						t.Errorf("%s of %d bytes, %d kept: %+v", s, want, sum, st)
					}
					if _, err := os.Stat(filepath.Join(dir, endName(s, want))); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, before %d", after, before)
	}
}

// What cannot be spliced is copied.
func TestOtherSources(t *testing.T) {
	const n, limit = 500_000, 100_000
	t.Run("socket", func(t *testing.T) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		from, to := os.NewFile(uintptr(fds[0]), "a"), os.NewFile(uintptr(fds[1]), "b")
		dir := t.TempDir()
		c := start(t, dir, Config{Stdout: from, Max: limit})
		from.Close()
		feed(t, to, 0, n, 7777)
		to.Close()
		<-c.Ended()
		checkKept(t, dir, Stdout, limit, n)
	})
	t.Run("file", func(t *testing.T) {
		dir, path := t.TempDir(), filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, values(0, n), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		c := start(t, dir, Config{Stdout: f, Max: limit})
		<-c.Ended()
		checkKept(t, dir, Stdout, limit, n)
		if st := c.Stats(); !st.Stderr.Closed || st.Stderr.Seen != 0 {
			t.Errorf("a stream that is not there: %+v", st.Stderr)
		}
	})
	t.Run("no splice", func(t *testing.T) {
		dir := t.TempDir()
		r, w := pipe(t)
		src, err := newSource(openDir(t, dir), r, Stdout)
		if err != nil {
			t.Fatal(err)
		}
		src.copying = true
		unix.Close(src.null)
		src.null = -1
		src.open(limit, time.Now())
		done := make(chan bool)
		go func() { src.run(); close(done) }()
		feed(t, w, 0, n, 9999)
		w.Close()
		<-done
		checkKept(t, dir, Stdout, limit, n)
	})
	t.Run("a datagram in a socket of the network", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Skipf("no network: %v", err)
		}
		defer l.Close()
		to, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		from, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		f, err := from.(*net.TCPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		from.Close()
		dir := t.TempDir()
		c := start(t, dir, Config{Stdout: f, Max: limit})
		f.Close()
		feed(t, to, 0, n, 100_000)
		to.Close()
		<-c.Ended()
		checkKept(t, dir, Stdout, limit, n)
	})
}

func TestOnePipeForBoth(t *testing.T) {
	dir := t.TempDir()
	r, w := pipe(t)
	c := start(t, dir, Config{Stdout: r, Stderr: r, Max: 1000})
	feed(t, w, 0, 100, 10)
	w.Close()
	<-c.Ended()
	checkKept(t, dir, Stdout, 1000, 100)
	if _, err := os.Stat(filepath.Join(dir, "stderr")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("stderr: %v", err)
	}
}

func TestPolicy(t *testing.T) {
	for _, p := range []Policy{"", PolicyTruncate, PolicyStop} {
		dir := t.TempDir()
		r, w := pipe(t)
		c := start(t, dir, Config{Stderr: r, Max: 1000, Policy: p})
		feed(t, w, 0, 1000, 10)
		until(t, c, "the cap", func(st Stats) bool { return st.Stderr.Seen == 1000 })
		select {
		case <-c.Exceeded():
			t.Errorf("%q: told of the cap itself", p)
		default:
		}
		feed(t, w, 1000, 5000, 10)
		until(t, c, "more", func(st Stats) bool { return st.Stderr.Seen == 6000 })
		select {
		case <-c.Exceeded():
			if p != PolicyStop {
				t.Errorf("%q: told of the cap", p)
			}
		default:
			if p == PolicyStop {
				t.Errorf("%q: nothing was told", p)
			}
		}
		w.Close()
		<-c.Ended()
		checkKept(t, dir, Stderr, 1000, 6000)
	}
}
