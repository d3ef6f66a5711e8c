package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

const (
	// floodCap is what may be kept of the output.
	floodCap = 64 << 20
	// plainBytes is how much is written without unitward, to compare: as much
	// as there may be room for.
	plainBytes = 1 << 30
)

// flood lets `yes` write into a cap for a time, and measures what that takes on
// disk and in memory, and how fast it is beside a file and beside cat.
func (b *bench) flood() error {
	for _, isolation := range []string{"service", "cgroup"} {
		if err := b.floodIn(isolation); err != nil {
			return fmt.Errorf("isolation %s: %w", isolation, err)
		}
	}
	return nil
}

func (b *bench) floodIn(isolation string) (err error) {
	dir, err := os.MkdirTemp(b.dir, "flood-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &crowd{unitward: b.unitward, isolation: isolation, dir: dir, manager: b.manager}
	if err := c.launch(0, "--output-max", fmt.Sprint(floodCap), "--", "yes"); err != nil {
		return err
	}
	c.n = 1
	stopped := false
	defer func() {
		if !stopped {
			_, serr := c.do("stop", "-q", "--grace", "1s", c.name(0))
			err = errors.Join(err, serr)
		}
	}()
	keepers, err := c.keepers()
	if err != nil {
		return err
	}
	began := time.Now()
	var disk, first, most int64
	for time.Since(began) < b.floodFor {
		time.Sleep(100 * time.Millisecond)
		disk = max(disk, onDisk(filepath.Join(dir, "state", "jobs", c.name(0))))
		kib, err := written(keepers[0][1])
		if err != nil {
			return err
		}
		if first == 0 && time.Since(began) > b.floodFor/20 {
			first = int64(kib)
		}
		most = max(most, int64(kib))
	}
	said, err := c.do("status", "--json", c.name(0))
	took := time.Since(began)
	if err != nil {
		return err
	}
	var rep unit.Report
	if err := json.Unmarshal([]byte(said), &rep); err != nil {
		return err
	}
	stopped = true
	if _, err := c.do("stop", "-q", "--grace", "1s", c.name(0)); err != nil {
		return err
	}
	if rep.Streams.StdoutBytes == nil {
		return errors.New("its report does not say how much it wrote")
	}
	rate := float64(*rep.Streams.StdoutBytes) / took.Seconds()
	file, err := plain(dir, "exec yes")
	if err != nil {
		return err
	}
	piped, err := plain(dir, "yes | cat")
	if err != nil {
		return err
	}
	group := "flood, " + isolation
	const toFile, toCat = "yes > file", "yes | cat > file"
	b.rows = append(b.rows, rows(group, "GB/s", []*series{
		{name: "yes, captured", higher: true, figures: []float64{rate / 1e9}, against: []comparison{{To: toFile}, {To: toCat}}},
		{name: toFile, higher: true, figures: []float64{file / 1e9}},
		{name: toCat, higher: true, figures: []float64{piped / 1e9}},
	})...)
	b.figure(group, "most on disk", "MiB", float64(disk)/(1<<20), comparison{AtMost: floodCap >> 20})
	b.figure(group, "growth of the keeper", "MiB", float64(most-first)/1024, comparison{AtMost: 0.5})
	return nil
}

// onDisk is what the captured output takes there.
func onDisk(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "job.json" || e.Name() == "kept" {
			return nil
		}
		if info, err := e.Info(); err == nil { // what is being removed counts no more
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += max(st.Blocks*512, 0)
			}
		}
		return nil
	})
	return sum
}

// plain is how many bytes a second a shell command writes into a file, until
// the limit to its size ends it.
func plain(dir, script string) (float64, error) {
	path := filepath.Join(dir, "plain")
	file, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path)
	defer file.Close()
	cmd := exec.Command("sh", "-c", script)
	cmd.Stdout = file
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		return 0, err
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: plainBytes, Max: was.Max}); err != nil {
		return 0, err
	}
	began := time.Now()
	err = cmd.Start()
	if rerr := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err == nil {
		err = rerr
	}
	if err != nil {
		return 0, err
	}
	_ = cmd.Wait() // it ends by SIGXFSZ
	took := time.Since(began)
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if info.Size() < plainBytes {
		return 0, fmt.Errorf("%s wrote %d bytes only", script, info.Size())
	}
	return float64(info.Size()) / took.Seconds(), nil
}
