package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

const (
	// mostList is how many milliseconds a list of all jobs may take.
	mostList = 300
	// startsAtATime is how many starts are under way: a manager is one thread,
	// and takes no more with profit.
	startsAtATime = 8
	// sampled is how many jobs' memory is measured.
	sampled = 40
	// idleFor is how long the jobs are left alone to see what they cost so.
	idleFor = 5 * time.Second
)

// crowdSizes are the points of the curve.
var crowdSizes = []int{10, 100, 1000, 2000}

// crowd is many detached jobs at once.
type crowd struct {
	unitward, isolation, dir, manager string
	n                                 int
}

// launch starts a job of the crowd, where its jobs are.
func (c *crowd) launch(i int, args ...string) error {
	start := []string{"start", "-q", "-u", c.name(i), "--isolation", c.isolation}
	if c.isolation == verify.IsolationService {
		start = append(start, c.manager) // no manager holds the others
	}
	_, err := c.do(append(start, args...)...)
	return err
}

// many measures what each number of detached jobs costs, in each isolation.
func (b *bench) many() error {
	for _, isolation := range []string{"service", "cgroup"} {
		if err := b.manyIn(isolation); err != nil {
			return fmt.Errorf("isolation %s: %w", isolation, err)
		}
	}
	return nil
}

func (b *bench) manyIn(isolation string) (err error) {
	dir, err := os.MkdirTemp(b.dir, "many-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	group := "many detached jobs, " + isolation
	c := &crowd{unitward: b.unitward, isolation: isolation, dir: dir, manager: b.manager}
	defer func() {
		began := time.Now()
		_, serr := c.do("stop", "-q", "--owner", "crowd", "--grace", "1s")
		if c.n > 0 && serr == nil {
			b.figure(group, fmt.Sprintf("stop --owner, each of %d jobs", c.n), "ms", ms(time.Since(began))/float64(c.n))
		}
		err = errors.Join(err, serr)
	}()
	for _, size := range crowdSizes {
		now, err := c.grow(size)
		if err != nil {
			return err
		}
		now.report(b, group)
	}
	return nil
}

// timing is how long a command takes: milliseconds of each time.
type timing struct {
	elapsed   []float64
	processor []float64 // user and system time; what others do counts less in it
}

// costs are those of a crowd of one size.
type costs struct {
	jobs         int
	added        int
	took         time.Duration // to start those that were added
	list, status timing
	keeper       int           // KiB of what stays with a job
	idle         time.Duration // processor time of all that stay, in idleFor
}

// report makes rows of them.
func (c *costs) report(b *bench, group string) {
	at := fmt.Sprintf(", %d jobs", c.jobs)
	b.figure(group, "start"+at, "jobs/s", float64(c.added)/c.took.Seconds())
	list := &series{name: "list" + at, figures: c.list.elapsed, against: []comparison{{AtMost: mostList}}}
	b.rows = append(b.rows, rows(group, "ms", []*series{
		list, {name: "list, processor time" + at, figures: c.list.processor},
		{name: "status" + at, figures: c.status.elapsed}, {name: "status, processor time" + at, figures: c.status.processor},
	})...)
	b.figure(group, "memory of a job"+at, "MiB", mib(c.keeper), comparison{AtMost: mostDetached})
	b.figure(group, "idle"+at, "% of a processor", 100*c.idle.Seconds()/idleFor.Seconds())
}

// grow starts jobs until there are so many, and measures.
func (c *crowd) grow(size int) (*costs, error) {
	got := &costs{jobs: size, added: size - c.n}
	began := time.Now()
	if err := c.start(size); err != nil {
		return nil, err
	}
	got.took = time.Since(began)
	time.Sleep(settle)
	var err error
	if got.list, err = c.times("list", "--json"); err != nil {
		return nil, err
	}
	if got.status, err = c.times("status", "--json", c.name(size/2)); err != nil {
		return nil, err
	}
	keepers, err := c.keepers()
	if err != nil {
		return nil, err
	}
	for i := range min(sampled, size) {
		for _, pid := range keepers[i*size/min(sampled, size)] {
			kib, err := private(pid)
			if err != nil {
				return nil, err
			}
			got.keeper += kib
		}
	}
	got.keeper /= min(sampled, size)
	all := slices.Concat(keepers...)
	at := processorTime(all...)
	time.Sleep(idleFor)
	got.idle = processorTime(all...) - at
	return got, nil
}

func (c *crowd) name(i int) string { return "crowd-" + strconv.Itoa(i) }

func (c *crowd) start(size int) error {
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	next := make(chan int)
	for range startsAtATime {
		wg.Go(func() {
			for i := range next {
				if err := c.launch(i, "--owner", "crowd", "--", "sleep", "100000"); err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for ; c.n < size; c.n++ {
		next <- c.n
	}
	close(next)
	wg.Wait()
	return failed
}

func (c *crowd) do(args ...string) (string, error) {
	out, _, err := c.used(args...)
	return out, err
}

// used is do with the processor time that it took.
func (c *crowd) used(args ...string) (string, time.Duration, error) {
	cmd := exec.Command(c.unitward, append([]string{"--state-dir", filepath.Join(c.dir, "state")}, args...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", 0, fmt.Errorf("%v: %w: %.2000s", args, err, said.String())
	}
	return out.String(), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// times is how long a command takes, five times.
func (c *crowd) times(args ...string) (t timing, err error) {
	for range 5 {
		began := time.Now()
		_, used, err := c.used(args...)
		if err != nil {
			return t, err
		}
		t.elapsed, t.processor = append(t.elapsed, ms(time.Since(began))), append(t.processor, ms(used))
	}
	return t, nil
}

// keepers are the processes that stay with each job: the parent of its main
// process, and the parent of that.
func (c *crowd) keepers() ([][]int, error) {
	var all [][]int
	for i := range c.n {
		b, err := os.ReadFile(filepath.Join(c.dir, "state", "jobs", c.name(i), "job.json"))
		if err != nil {
			return nil, err
		}
		var rec unit.Record
		if err := json.Unmarshal(b, &rec); err != nil {
			return nil, err
		}
		reaper, err := parent(rec.Identity.PID)
		if err != nil {
			return nil, err
		}
		keeper, err := parent(reaper)
		if err != nil {
			return nil, err
		}
		all = append(all, []int{reaper, keeper})
	}
	return all, nil
}
