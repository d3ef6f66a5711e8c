package capture

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// value is the byte at an offset of every stream of the tests.
func value(offset int64) byte {
	x := uint64(offset)*0x9e3779b97f4a7c15 + 0x1234567
	return byte(x >> 56)
}

func values(from, n int64) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = value(from + int64(i))
	}
	return b
}

// onDisk reads the files of a stream without the reader. have are the offsets
// with a byte; every byte is checked.
func onDisk(t testing.TB, dir string, s Stream) (pieces []segment, sum, position int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		off, end, ok := parseName(s, e.Name())
		if !ok {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			return onDisk(t, dir, s) // it has another name by now: somebody writes
		}
		if err != nil {
			t.Fatal(err)
		}
		if end && len(b) > 0 {
			t.Fatalf("%s has %d bytes", e.Name(), len(b))
		}
		for i, c := range b {
			if c != value(off+int64(i)) {
				t.Fatalf("%s: byte %d is wrong", e.Name(), i)
			}
		}
		if info, _ := e.Info(); info.Mode() != 0o600 {
			t.Fatalf("%s has mode %v", e.Name(), info.Mode())
		}
		position = max(position, off+int64(len(b)))
		sum += int64(len(b))
		if len(b) > 0 {
			pieces = append(pieces, segment{off, int64(len(b))}) // sorted by name: by offset
		}
	}
	return pieces, sum, position
}

// checkKept compares what is on disk with the head and the newest tail of a
// stream of seen bytes.
func checkKept(t testing.TB, dir string, s Stream, limit, seen int64) {
	t.Helper()
	pieces, sum, position := onDisk(t, dir, s)
	if sum > limit {
		t.Fatalf("cap %d, %d seen: %d bytes are on disk", limit, seen, sum)
	}
	if position != seen {
		t.Fatalf("cap %d, %d seen: by the disk it is at %d", limit, seen, position)
	}
	head, tail := min(limit/2, seen), int64(0)
	next, inHead := int64(0), true
	for _, p := range pieces {
		if p.start != next {
			if p.start < next || !inHead || next != head {
				t.Fatalf("cap %d, %d seen: pieces %v overlap or have another gap than the one behind the head", limit, seen, pieces)
			}
			inHead = false
		}
		if p.start >= head {
			tail += p.size
		}
		next = p.start + p.size
	}
	if next != seen && (limit > 1 || seen < head) && limit > 0 {
		t.Fatalf("cap %d, %d seen: pieces %v do not reach the end", limit, seen, pieces)
	}
	// The tail has all, or at least all whole segments but one.
	room := limit - limit/2
	n := min(room, segments)
	least := int64(0)
	if n > 0 {
		least = max(room/n*(n-1), min(room, 1))
	}
	if want := min(least, seen-head); tail < want {
		t.Fatalf("cap %d, %d seen: the tail has %d bytes, want at least %d: %v", limit, seen, tail, want, pieces)
	}
}

// checkedDisk checks the sum on disk after each thing that is done.
type checkedDisk struct {
	directory
	t     testing.TB
	dir   string
	limit int64
	// refuse is the error of the next creations.
	refuse error
	ops    int
}

func (d *checkedDisk) check() {
	d.t.Helper()
	d.ops++
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	sum := int64(0)
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			sum += info.Size()
		}
	}
	if sum > d.limit {
		d.t.Fatalf("%d bytes on disk, the cap is %d", sum, d.limit)
	}
	if len(entries) > maxSegments+3 {
		d.t.Fatalf("%d files", len(entries))
	}
}

func (d *checkedDisk) create(name string) (int, error) {
	defer d.check()
	if d.refuse != nil {
		return -1, d.refuse
	}
	return d.directory.create(name)
}

func (d *checkedDisk) rename(from, to string) error {
	defer d.check()
	return d.directory.rename(from, to)
}

func (d *checkedDisk) remove(name string) error {
	defer d.check()
	return d.directory.remove(name)
}

func openDir(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func newChecked(t testing.TB, limit int64) *checkedDisk {
	dir, err := os.MkdirTemp(t.TempDir(), "") // rapid has one T for many histories
	if err != nil {
		t.Fatal(err)
	}
	return &checkedDisk{directory: directory(openDir(t, dir).Fd()), t: t, dir: dir, limit: limit}
}

// put writes n bytes as a source does.
func put(t testing.TB, h *shelf, n int64, now time.Time) {
	t.Helper()
	for n > 0 {
		fd, at, room, ok := h.room(now)
		if !ok {
			h.drop(n)
			return
		}
		k, err := unix.Pwrite(fd, values(h.off, min(n, room)), at)
		if err != nil {
			h.failed(err, now)
			continue
		}
		h.wrote(int64(k))
		n -= int64(k)
	}
}

func TestShelfHistories(t *testing.T) {
	for _, limit := range []int64{0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 100, 1000, 4095, 4096, 4097, 10_000} {
		for _, chunk := range []int64{1, 3, 16, 1000, 5000} {
			t.Run(fmt.Sprintf("%d by %d", limit, chunk), func(t *testing.T) {
				d := newChecked(t, limit)
				now := time.Now()
				h := newShelf(d, Stdout, limit, now)
				r := rand.New(rand.NewPCG(uint64(limit), uint64(chunk)))
				chunk := min(chunk, 2*limit+10)
				total := min(3*limit+20, 300*chunk)
				for h.off < total {
					put(t, h, 1+r.Int64N(chunk), now)
					d.check()
					if limit > 0 {
						checkKept(t, d.dir, Stdout, limit, h.off)
					}
					if _, sum, _ := onDisk(t, d.dir, Stdout); sum != h.kept() {
						t.Fatalf("%d bytes on disk, it counts %d", sum, h.kept())
					}
				}
				h.end(true, now)
				checkKept(t, d.dir, Stdout, limit, h.off)
			})
		}
	}
}

// Whatever the disk refuses and whenever it works again: what is kept is right,
// within the cap, and the end is on disk when it can be.
func TestShelfRefusals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.Int64Range(0, 400).Draw(rt, "cap")
		d := newChecked(t, limit)
		now := time.Now()
		h := newShelf(d, Stderr, limit, now)
		var seen int64
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				n := rapid.Int64Range(1, 200).Draw(rt, "n")
				put(t, h, n, now)
				seen += n
			},
			"drop": func(rt *rapid.T) {
				n := rapid.Int64Range(1, 50).Draw(rt, "n")
				h.drop(n)
				seen += n
			},
			"refuse": func(rt *rapid.T) {
				d.refuse = rapid.SampledFrom([]error{unix.ENOSPC, unix.EDQUOT, unix.EIO, unix.EROFS, unix.EMFILE}).Draw(rt, "error")
			},
			"fail": func(rt *rapid.T) {
				h.failed(rapid.SampledFrom([]error{unix.ENOSPC, unix.EIO, unix.EFBIG}).Draw(rt, "error"), now)
			},
			"allow": func(*rapid.T) { d.refuse = nil },
			"later": func(*rapid.T) { now = now.Add(retryAfter) },
			"mark":  func(*rapid.T) { h.mark(now) },
			"": func(rt *rapid.T) {
				_, sum, position := onDisk(t, d.dir, Stderr)
				if h.off != seen || sum != h.kept() || position > seen || position != h.position() {
					rt.Fatalf("%d seen, counted %d; %d on disk, counted %d; at %d, counted %d", seen, h.off, sum, h.kept(), position, h.position())
				}
			},
		})
		d.refuse = nil
		h.end(true, now)
		if _, _, position := onDisk(t, d.dir, Stderr); position != seen {
			rt.Fatalf("%d seen, the end is at %d", seen, position)
		}
	})
}

func TestShelfTriesAgainOnceASecond(t *testing.T) {
	d := newChecked(t, 1000)
	now := time.Now()
	h := newShelf(d, Stdout, 1000, now)
	d.refuse = unix.EIO
	put(t, h, 600, now) // 500 to the head
	ops := d.ops
	for range 100 {
		put(t, h, 10, now)
	}
	if d.ops != ops || h.err != unix.EIO || h.kept() != 500 || h.off != 1600 {
		t.Errorf("%d more attempts, error %v, %d of %d kept", d.ops-ops, h.err, h.kept(), h.off)
	}
	d.refuse = nil
	now = now.Add(retryAfter)
	put(t, h, 10, now)
	if h.kept() != 510 || h.off != 1610 {
		t.Errorf("the disk works again: %d of %d kept", h.kept(), h.off)
	}
	// Space: the oldest segment is given up, one a second, and never the last.
	for range 6 {
		put(t, h, 62, now)
	}
	before := len(h.tail)
	for range 10 {
		h.failed(unix.ENOSPC, now)
	}
	if given := before + 1 - len(h.tail); given != 1 {
		t.Errorf("of %d segments %d were given up in one second", before, given)
	}
}

func TestShelfReplacesWhatIsNotIts(t *testing.T) {
	d := newChecked(t, 100)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(d.dir, segmentName(Stdout, 50))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.dir, segmentName(Stdout, 56)), 0o700); err != nil {
		t.Fatal(err)
	}
	d.limit = 1 << 20 // links and directories have a size too
	now := time.Now()
	h := newShelf(d, Stdout, 100, now)
	put(t, h, 60, now)
	if b, err := os.ReadFile(victim); string(b) != "precious" || err != nil {
		t.Errorf("behind a link: %q, %v", b, err)
	}
	if h.err != unix.EISDIR || h.kept() != 56 || h.off != 60 {
		t.Errorf("error %v, %d of %d kept", h.err, h.kept(), h.off)
	}
}

// countedDisk counts the files that are made.
type countedDisk struct {
	directory
	made int
}

func (d *countedDisk) create(name string) (int, error) {
	d.made++
	return d.directory.create(name)
}

// What would be pushed out at once is not written: with a small cap a full pipe
// costs no more than the files of one tail.
func TestSmallCapOfAFullPipe(t *testing.T) {
	for _, limit := range []int64{1, 16, 1000, 100_000} {
		dir := t.TempDir()
		r, w := pipe(t)
		size, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, largePipe)
		if err != nil {
			t.Skipf("cannot make a large pipe: %v", err)
		}
		feed(t, w, 0, int64(size), int64(size))
		w.Close()
		src, err := newSource(openDir(t, dir), r, Stdout)
		if err != nil {
			t.Fatal(err)
		}
		src.open(limit, time.Now())
		d := &countedDisk{directory: directory(src.dir)}
		src.shelf.disk = d
		src.run()
		if d.made > segments+2 { // one before the first skip, and the end
			t.Errorf("cap %d: %d files were made", limit, d.made)
		}
		checkKept(t, dir, Stdout, limit, int64(size))
	}
}
