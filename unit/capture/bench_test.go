package capture

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkYes takes from `yes` into a cap of 64 MiB what it gives, beside what
// `cat` writes to a file without end. The bytes of one op are 1 GiB.
func BenchmarkYes(b *testing.B) {
	const size = 1 << 30
	input := func(b *testing.B) *os.File {
		r, w := pipe(b)
		cmd := exec.Command("head", "-c", fmt.Sprint(size), "/dev/zero") // yes has no end
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		w.Close()
		b.Cleanup(func() { cmd.Wait() })
		return r
	}
	// cpu reports the time of processors that the taking side took for a GiB.
	cpu := func(b *testing.B, who int) {
		b.SetBytes(size)
		var from unix.Rusage
		unix.Getrusage(who, &from)
		b.Cleanup(func() {
			var to unix.Rusage
			unix.Getrusage(who, &to)
			b.ReportMetric(float64(to.Utime.Nano()+to.Stime.Nano()-from.Utime.Nano()-from.Stime.Nano())/1e6/float64(b.N), "cpu-ms/op")
		})
	}
	b.Run("capture", func(b *testing.B) {
		cpu(b, unix.RUSAGE_SELF)
		for b.Loop() {
			dir := b.TempDir()
			c := start(b, dir, Config{Stdout: input(b), Max: DefaultMax})
			<-c.Ended()
			if st := c.Stats().Stdout; st.Seen != size || size-st.Dropped > DefaultMax {
				b.Fatalf("%+v", st)
			}
			b.StopTimer()
			os.RemoveAll(dir)
			b.StartTimer()
		}
	})
	b.Run("copying", func(b *testing.B) {
		cpu(b, unix.RUSAGE_SELF)
		for b.Loop() {
			dir := b.TempDir()
			src, err := newSource(openDir(b, dir), input(b), Stdout)
			if err != nil {
				b.Fatal(err)
			}
			src.copying = true
			src.open(DefaultMax, time.Now())
			src.run()
			b.StopTimer()
			os.RemoveAll(dir)
			b.StartTimer()
		}
	})
	b.Run("cat", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			file := filepath.Join(b.TempDir(), "out")
			f, err := os.Create(file)
			if err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command("cat")
			cmd.Stdin, cmd.Stdout = input(b), f
			if err := cmd.Run(); err != nil {
				b.Fatal(err)
			}
			f.Close()
			b.StopTimer()
			os.Remove(file)
			b.StartTimer()
		}
	})
}

// The memory of a process that captures does not grow with the output, nor does
// it work while there is none.
func TestFlatMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 256 MiB")
	}
	dir := t.TempDir()
	cmd, w := capturer(t, "capture", dir, 8<<20)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer w.Close()
	block := make([]byte, 1<<20)
	send := func(mib int) {
		for range mib {
			if _, err := w.Write(block); err != nil {
				t.Fatal(err)
			}
		}
	}
	peak := func() int {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(data), "VmHWM:")
		kib, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		return kib
	}
	send(16)
	before := peak()
	send(240)
	if after := peak(); after-before > 1024 {
		t.Errorf("the peak of memory grew from %d to %d KiB", before, after)
	} else {
		t.Logf("the peak of memory is %d KiB after 16 MiB, %d after 256", before, after)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dir, "stdout"), &st); err != nil || st.Size != 4<<20 {
		t.Errorf("the head has %d bytes, %v", st.Size, err)
	}
}
