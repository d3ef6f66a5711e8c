package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const (
	// served is how many jobs one connection runs, inFlight how many at a time.
	served, inFlight = 2000, 16
	// live is how many jobs are there at once when the server's memory is
	// measured, and mostServer what it may have, in KiB.
	live, mostServer = 1000, 40 << 10
	// leastServed is how many jobs a second there are to be in isolation cgroup.
	leastServed = 1500
)

// serve measures what one connection of unitward serve does, and what its jobs
// cost the server while they live.
func (b *bench) serve() error {
	for _, isolation := range []string{"service", "cgroup", "group"} {
		if err := b.serveIn(isolation); err != nil {
			return fmt.Errorf("isolation %s: %w", isolation, err)
		}
	}
	return nil
}

func (b *bench) serveIn(isolation string) (err error) {
	dir, err := os.MkdirTemp(b.dir, "serve-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	group := "serve, " + isolation
	s, err := startServer(b.unitward, filepath.Join(dir, "state"), 2*live)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended {
			err = errors.Join(err, s.end())
		}
	}()
	rate, took, used, err := s.throughput(isolation)
	if err != nil {
		return err
	}
	var against []comparison
	if isolation == "cgroup" {
		against = []comparison{{AtLeast: leastServed}}
	}
	b.figure(group, fmt.Sprintf("%d jobs, %d in flight", served, inFlight), "jobs/s", rate, against...)
	var figures []float64
	for _, d := range took {
		figures = append(figures, ms(d))
	}
	b.rows = append(b.rows, rows(group, "ms", []*series{{name: "request to settled", figures: figures}})...)
	b.figure(group, "request to settled, 99th percentile", "ms", quantile(figures, 99))
	b.figure(group, "processor time of the machine for a job", "ms", ms(used)/served)
	began := time.Now()
	m, idle, err := s.crowd(isolation)
	if err != nil {
		return err
	}
	b.figure(group, fmt.Sprintf("start of %d live jobs", live), "s", (time.Since(began) - settle - idleFor).Seconds())
	b.figure(group, fmt.Sprintf("memory of the server, %d live jobs", live), "MiB", mib(m), comparison{AtMost: mostServer >> 10})
	b.figure(group, fmt.Sprintf("idle, %d live jobs", live), "% of a processor", 100*idle.Seconds()/idleFor.Seconds())
	ended = true
	b.end(group, s, live)
	return nil
}

// throughput runs jobs of `true`, and says how many there were a second, how
// long each took from the request to its end, and the processor time of all:
// of the server and, as it reaps them or their keepers, of what it started.
func (s *server) throughput(isolation string) (rate float64, took []time.Duration, used time.Duration, err error) {
	if _, err := s.run(isolation, inFlight, inFlight); err != nil { // warm up
		return 0, nil, 0, err
	}
	before, err := machineTime()
	if err != nil {
		return 0, nil, 0, err
	}
	began := time.Now()
	if took, err = s.run(isolation, served, inFlight); err != nil {
		return 0, nil, 0, err
	}
	lasted := time.Since(began)
	after, err := machineTime()
	return served / lasted.Seconds(), took, after - before, err
}

// crowd starts jobs that live, and says what memory the server has, in KiB, and what processor time it takes while nothing happens.
func (s *server) crowd(isolation string) (kib int, idle time.Duration, err error) {
	if err := s.fill(isolation, 0, live); err != nil {
		return 0, 0, err
	}
	time.Sleep(settle)
	before := processorTime(s.cmd.Process.Pid)
	time.Sleep(idleFor)
	idle = processorTime(s.cmd.Process.Pid) - before
	kib, err = resident(s.cmd.Process.Pid)
	return kib, idle, err
}
