package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/unitward/unitward/unit"
)

const (
	// mostList is how long a list of all jobs may take.
	mostList = 300 * time.Millisecond
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

// many prints what each number of jobs costs, in each isolation.
func many(unitward, manager, label string) error {
	for _, isolation := range []string{"service", "cgroup"} {
		if err := manyIn(unitward, manager, isolation, label); err != nil {
			return fmt.Errorf("cannot measure many jobs of isolation %s: %w", isolation, err)
		}
	}
	return nil
}

func manyIn(unitward, manager, isolation, label string) (err error) {
	dir, err := os.MkdirTemp("", "unitward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := &crowd{unitward: unitward, isolation: isolation, dir: dir, manager: manager}
	defer func() {
		began := time.Now()
		_, serr := c.do("stop", "-q", "--owner", "crowd", "--grace", "1s")
		took := time.Since(began)
		if c.n > 0 && serr == nil {
			fmt.Printf("%-34s %-8s %5d jobs  stop --owner %.1f s, %.2f ms each\n", label, isolation, c.n, took.Seconds(), ms(took)/float64(c.n))
		}
		err = errors.Join(err, serr)
	}()
	var before *costs
	for _, size := range crowdSizes {
		now, err := c.grow(size)
		if err != nil {
			return err
		}
		fmt.Printf("%-34s %-8s %s\n", label, isolation, now.row(before))
		before = now
	}
	return nil
}

// timing is how long a command takes: medians.
type timing struct {
	elapsed   time.Duration
	processor time.Duration // user and system time; what others do counts less in it
}

func (t timing) String() string {
	return fmt.Sprintf("%6.1f ms (processor %5.1f)", ms(t.elapsed), ms(t.processor))
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

// row says what a job more costs beside the size before.
func (c *costs) row(before *costs) string {
	s := fmt.Sprintf("%5d jobs  start %4.0f/s  list %s, at most %d: %s  status %s  memory %.2f MiB a job  idle %.2f %% of a processor",
		c.jobs, float64(c.added)/c.took.Seconds(), c.list, mostList.Milliseconds(), verdict(c.list.elapsed <= mostList), c.status, mib(c.keeper),
		100*c.idle.Seconds()/idleFor.Seconds())
	if before != nil && before.jobs >= 100 {
		each := func(c *costs) float64 { return float64(c.took) / float64(c.added) }
		perJob := func(c *costs) float64 { return float64(c.list.processor) / float64(c.jobs) }
		s += fmt.Sprintf("  for each job, to %d: start %.2f, processor of list %.2f", before.jobs, each(c)/each(before), perJob(c)/perJob(before))
	}
	return s
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
	if got.list, err = c.median("list", "--json"); err != nil {
		return nil, err
	}
	if got.status, err = c.median("status", "--json", c.name(size/2)); err != nil {
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
	at := processorTime(keepers)
	time.Sleep(idleFor)
	got.idle = processorTime(keepers) - at
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
				_, err := c.do("start", "-q", c.manager, "-u", c.name(i), "--owner", "crowd", "--isolation", c.isolation, "--", "sleep", "100000")
				if err != nil {
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

// median is how long a command takes, of five times.
func (c *crowd) median(args ...string) (timing, error) {
	var elapsed, processor []time.Duration
	for range 5 {
		began := time.Now()
		_, used, err := c.used(args...)
		if err != nil {
			return timing{}, err
		}
		elapsed, processor = append(elapsed, time.Since(began)), append(processor, used)
	}
	return timing{quantile(elapsed, 50), quantile(processor, 50)}, nil
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

// stat are the fields of proc_pid_stat(5) after the name.
func stat(pid int) ([]string, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])), nil
}

func parent(pid int) (int, error) {
	fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(fields[1])
}

// processorTime is what the processes have used; those that have ended count
// for nothing.
func processorTime(of [][]int) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ is 100
	var sum time.Duration
	for _, pids := range of {
		for _, pid := range pids {
			fields, err := stat(pid)
			if err != nil {
				continue
			}
			for _, f := range fields[11:13] {
				n, _ := strconv.Atoi(f) // the kernel writes numbers
				sum += time.Duration(n) * tick
			}
		}
	}
	return sum
}
