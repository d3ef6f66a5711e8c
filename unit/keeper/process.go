package keeper

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// StartTime is when a process started, in clock ticks since boot (field 22 of
// proc_pid_stat(5)): with the pid it tells a process from a later one of the
// same number. The error is fs.ErrNotExist when the process is gone.
func StartTime(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, fmt.Errorf("cannot identify process %d: %w", pid, err)
	}
	return parseStartTime(string(b))
}

func parseStartTime(stat string) (uint64, error) {
	// The command's name may hold spaces and parentheses: fields are counted
	// from the last one. The first after it is field 3.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return 0, fmt.Errorf("cannot read a start time from %q", stat)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// Forked reports whether a process is a fork of systemd that has not become
// its command yet: its name is in parentheses. It is false for a process that
// is gone.
func Forked(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return err == nil && strings.HasPrefix(string(b), "(")
}
