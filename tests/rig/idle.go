package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	// A machine begins beside others when the processors were idle for roomShare of
	// the last roomTime. Where they are not, it would bring nothing but longer waits,
	// and tests that fail of them.
	roomShare = 0.3
	roomTime  = 10 * time.Second
)

// hasRoom watches the processors for a while. What it cannot read is room.
func hasRoom() bool {
	before, err := readTicks()
	time.Sleep(roomTime)
	after, err2 := readTicks()
	if err != nil || err2 != nil {
		return true
	}
	return idleShare(before, after) >= roomShare
}

// ticks are the times of all processors since the boot, in a unit of their own.
type ticks struct{ idle, all uint64 }

func readTicks() (ticks, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return ticks{}, err
	}
	return parseTicks(string(b))
}

// parseTicks reads the first line of /proc/stat: user, nice, system, idle, iowait,
// irq, softirq and steal, then times of guests, which are in user (proc_stat(5)).
func parseTicks(stat string) (t ticks, err error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("cannot understand /proc/stat: %q", line)
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return t, fmt.Errorf("cannot understand /proc/stat: %w", err)
		}
		if t.all += n; i == 3 || i == 4 {
			t.idle += n
		}
	}
	return t, nil
}

func idleShare(before, after ticks) float64 {
	if after.all <= before.all || after.idle < before.idle {
		return 0 // idle may go back a little (proc_stat(5))
	}
	return float64(after.idle-before.idle) / float64(after.all-before.all)
}
