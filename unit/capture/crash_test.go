package capture

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// child is a process that captures its own standard input, in the directory
// $CAPTURE_TEST_DIR with the cap $CAPTURE_TEST_MAX.
func child(role string) {
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	limit, err := strconv.ParseInt(os.Getenv("CAPTURE_TEST_MAX"), 10, 64)
	must(err)
	if size, err := strconv.ParseUint(role, 10, 64); err == nil { // a limit to the size of files
		must(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size}))
	}
	dir, err := os.Open(os.Getenv("CAPTURE_TEST_DIR"))
	must(err)
	c, err := Start(dir, Config{Stdout: os.Stdin, Max: limit})
	must(err)
	os.Stdin.Close()
	<-c.Ended()
	st := c.Stats().Stdout
	fmt.Println(st.Seen, st.Dropped, st.Closed, st.Err)
}

func capturer(t testing.TB, role, dir string, limit int64) (cmd *exec.Cmd, in *os.File) {
	t.Helper()
	r, w := pipe(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(self)
	cmd.Stdin = r
	cmd.Env = append(os.Environ(), "CAPTURE_TEST_ROLE="+role, "CAPTURE_TEST_DIR="+dir, fmt.Sprint("CAPTURE_TEST_MAX=", limit))
	return cmd, w
}

// What a capture that was killed at any moment left is right and within the
// cap, and the reader gives it.
func TestKilled(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	block := values(0, 1<<20)
	for i := range rounds {
		limit := []int64{0, 1, 100, 5000, 300_000, 4 << 20}[i%6]
		dir := t.TempDir()
		cmd, w := capturer(t, "capture", dir, limit)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmd.Stdin.(*os.File).Close()
		written := make(chan int64)
		go func() {
			n := int64(0)
			for {
				at := n % (1 << 20)
				chunk := block
				if n >= 1<<20 {
					chunk = values(n, 1<<16)
				} else {
					chunk = chunk[at:min(at+10_000, 1<<20)]
				}
				k, err := w.Write(chunk)
				if n += int64(k); err != nil {
					written <- n
					return
				}
			}
		}()
		for { // until it has begun
			if _, _, at := onDiskSoftly(dir); at > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Duration(rand.IntN(20_000)) * time.Microsecond)
		cmd.Process.Kill()
		cmd.Wait()
		n := <-written
		_, sum, position := onDisk(t, dir, Stdout)
		if sum > limit || position > n {
			t.Fatalf("cap %d, %d written: %d on disk, up to %d", limit, n, sum, position)
		}
		r := openReader(t, dir, Stdout)
		size, closed, err := r.Size()
		if size != position || closed || err != nil {
			t.Fatalf("the reader: %d, %v, %v; on disk %d", size, closed, err, position)
		}
		if got := readAll(t, r, 0, size); got != sum {
			t.Fatalf("the reader gives %d bytes of %d", got, sum)
		}
	}
}

// onDiskSoftly is onDisk while it changes.
func onDiskSoftly(dir string) (files int, sum, position int64) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		off, _, _ := parseName(Stdout, e.Name())
		if info, err := e.Info(); err == nil {
			sum += info.Size()
			position = max(position, off+info.Size())
		}
	}
	return len(entries), sum, position
}

// A limit to the size of files does not end the process; the tail goes on in
// files that are small enough.
func TestFileSizeLimit(t *testing.T) {
	for role, want := range map[string]string{
		"0":    "100000 100000 true file too large\n",
		"700":  "", // less than a segment
		"5000": "", // less than the head
	} {
		dir := t.TempDir()
		cmd, w := capturer(t, role, dir, 20_000)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		feed(t, w, 0, 100_000, 1000)
		w.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		_, sum, position := onDisk(t, dir, Stdout)
		if want == "" {
			want = fmt.Sprintf("100000 %d true <nil>\n", 100_000-sum)
			if sum < 5000 {
				t.Errorf("limit %s: only %d bytes are kept", role, sum)
			}
		}
		if out.String() != want || sum > 20_000 || position != 100_000 {
			t.Errorf("limit %s: it said %q, want %q; %d on disk, up to %d", role, &out, want, sum, position)
		}
	}
}

// A real full disk: the job goes on, what is on disk is right, and when there
// is space again it is used.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk; TestFileSizeLimit refuses in another way")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("umount %s: %v", dir, err)
		}
	})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 128<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	r, w := pipe(t)
	c := start(t, dir, Config{Stdout: r, Max: 1 << 20})
	r.Close()
	const first = 5 << 20
	feed(t, w, 0, first, 50_000)
	until(t, c, "all of it", func(st Stats) bool { return st.Stdout.Seen == first })
	st := c.Stats().Stdout
	_, sum, _ := onDisk(t, dir, Stdout)
	if st.Err != unix.ENOSPC || st.ErrAt.IsZero() || st.Dropped != first-sum || sum < 100<<10 {
		t.Errorf("%d on disk: %+v", sum, st)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	n := int64(first)
	for deadline := time.Now().Add(time.Minute); c.Stats().Stdout.Dropped == n-sum; time.Sleep(10 * time.Millisecond) {
		feed(t, w, n, 1000, 1000)
		n += 1000
		until(t, c, "more", func(st Stats) bool { return st.Stdout.Seen == n })
		if time.Now().After(deadline) {
			t.Fatalf("nothing was kept after there was space: %+v", c.Stats())
		}
	}
	w.Close()
	<-c.Ended()
	_, after, position := onDisk(t, dir, Stdout)
	if st := c.Stats().Stdout; after <= sum || position != n || st.Dropped != n-after {
		t.Errorf("%d on disk, up to %d of %d: %+v", after, position, n, st)
	}
	rd := openReader(t, dir, Stdout)
	if got := readAll(t, rd, 0, n); got != after {
		t.Errorf("the reader gives %d bytes of %d", got, after)
	}
}
