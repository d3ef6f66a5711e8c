package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc: USER_HZ is 100.
const tick = 10 * time.Millisecond

// processes are all that are there.
func processes() map[int]bool {
	all := map[int]bool{}
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil {
			all[pid] = true
		}
	}
	return all
}

// argv is the command line of a process; empty where it has none, or is gone.
func argv(pid int) []string {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
}

// private is the memory that a process shares with nobody, in KiB
// (proc_pid_smaps(5)).
func private(pid int) (kib int, err error) { return smaps(pid, "Private_") }

// written is the memory that a process has written to and shares with nobody, in
// KiB. The rest of its private memory is of the program, and whether that is private
// is for the other processes to say which run it at the time.
func written(pid int) (kib int, err error) { return smaps(pid, "Anonymous:") }

// smaps is the sum of the lines of smaps_rollup that begin with a word, in KiB.
func smaps(pid int, prefix string) (kib int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if _, value, _ := strings.Cut(line, ":"); strings.HasPrefix(line, prefix) {
			var n int
			if _, err := fmt.Sscan(value, &n); err != nil {
				return 0, fmt.Errorf("cannot read %q: %w", line, err)
			}
			kib += n
		}
	}
	return kib, nil
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
func processorTime(pids ...int) time.Duration {
	var sum time.Duration
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
	return sum
}

// machineTime is the time that the machine's processors have worked, of
// proc_stat(5). Beside a benchmark nothing else ought to run.
func machineTime() (time.Duration, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var sum time.Duration
	for i, f := range strings.Fields(line)[1:] {
		if n, err := strconv.Atoi(f); err == nil && i != 3 && i != 4 && i < 8 { // idle, iowait; guests are counted before
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

func mib(kib int) float64 { return float64(kib) / 1024 }
