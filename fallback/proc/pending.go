package proc

import (
	"fmt"
	"strconv"
	"strings"
)

// maxStatus bounds the file: some sixty lines.
const maxStatus = 64 << 10

// Pending are the signals that were sent to a process and that it has not taken,
// one bit each, the lowest for signal 1. The error is fs.ErrNotExist when the
// process is gone.
func (d Dir) Pending(pid int) (uint64, error) {
	p, err := d.Open(pid)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	b, err := p.read("status", maxStatus)
	if err != nil {
		return 0, fmt.Errorf("cannot read the state of process %d: %w", pid, err)
	}
	return ParsePending(string(b))
}

// ParsePending takes ShdPnd of /proc/PID/status (proc_pid_status(5)).
func ParsePending(status string) (uint64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "ShdPnd:"); ok {
			n, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			if err != nil {
				return 0, fmt.Errorf("cannot read the signals %q: %w", strings.TrimSpace(value), err)
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("cannot read the signals: there is no ShdPnd in %d bytes", len(status))
}
