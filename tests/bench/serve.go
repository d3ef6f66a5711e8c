package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	// systemdRuns is how many peers of a service are run, one after another.
	systemdRuns = 200
	// overSystemdRun and overBare are the least ratios for services.
	overSystemdRun, overBare = 3, 0.9
)

// serve prints what one connection of unitward serve does, and what its jobs
// cost the server while they live.
func serve(unitward, manager, label string) error {
	for _, isolation := range []string{"service", "cgroup", "group"} {
		if err := serveIn(unitward, manager, isolation, label); err != nil {
			return fmt.Errorf("cannot measure unitward serve in isolation %s: %w", isolation, err)
		}
	}
	return nil
}

func serveIn(unitward, manager, isolation, label string) error {
	dir, err := os.MkdirTemp("", "unitward-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	say := func(format string, a ...any) {
		fmt.Printf("%-34s serve, %-8s %s\n", label, isolation, fmt.Sprintf(format, a...))
	}
	s, err := startServer(unitward, filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	rate, took, used, err := s.throughput(isolation)
	if err != nil {
		return errors.Join(err, s.end())
	}
	row := fmt.Sprintf("%4.0f jobs/s, %d at a time  request to settled p50 %.1f ms  p99 %.1f ms  processor %.2f ms a job", rate, inFlight,
		ms(quantile(took, 50)), ms(quantile(took, 99)), ms(used)/served)
	switch isolation {
	case "cgroup":
		row += fmt.Sprintf("  at least %d: %s", leastServed, verdict(rate >= leastServed))
	case "service":
		plain, err1 := systemdRunRate(manager)
		bare, err2 := bareRate(manager)
		if err := errors.Join(err1, err2); err != nil {
			return errors.Join(err, s.end())
		}
		row += fmt.Sprintf("  systemd-run --wait --pipe %.0f/s, ratio %.2f, at least %d: %s  bare godbus %.0f/s, ratio %.2f, at least %.1f: %s",
			plain, rate/plain, overSystemdRun, verdict(rate >= overSystemdRun*plain), bare, rate/bare, overBare, verdict(rate >= overBare*bare))
	}
	say("%s", row)
	began := time.Now()
	m, idle, err := s.crowd(isolation)
	if err != nil {
		return errors.Join(err, s.end())
	}
	grown := time.Since(began) - settle - idleFor
	say("%d live jobs after %.1f s  memory of the server %.1f MiB, at most %d: %s  idle %.2f %% of a processor", live, grown.Seconds(),
		mib(m), mostServer>>10, verdict(m <= mostServer), 100*idle.Seconds()/idleFor.Seconds())
	began = time.Now()
	if err := s.end(); err != nil {
		return err
	}
	say("end of %d live jobs after %.1f s", live, time.Since(began).Seconds())
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
	for range live {
		if err := s.slot(inFlight); err != nil {
			return 0, 0, err
		}
		s.ask("job.start", job(isolation, "sleep", "100000"))
	}
	if err := s.slot(1); err != nil {
		return 0, 0, err
	}
	time.Sleep(settle)
	before := processorTime([][]int{{s.cmd.Process.Pid}})
	time.Sleep(idleFor)
	idle = processorTime([][]int{{s.cmd.Process.Pid}}) - before
	kib, err = resident(s.cmd.Process.Pid)
	return kib, idle, err
}

// resident is the memory of a process, in KiB, with what it shares: that of a
// server is shared with the reapers, which are forks of it.
func resident(pid int) (kib int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	_, err = fmt.Sscan(rest, &kib)
	return kib, err
}

// systemdRunRate is how many services a second a loop of systemd-run makes.
func systemdRunRate(manager string) (float64, error) {
	began := time.Now()
	for range systemdRuns {
		if out, err := exec.Command("systemd-run", manager, "--wait", "--pipe", "-q", "true").CombinedOutput(); err != nil {
			return 0, fmt.Errorf("systemd-run: %w: %s", err, out)
		}
	}
	return systemdRuns / time.Since(began).Seconds(), nil
}
