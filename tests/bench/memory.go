package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/unitward/unitward/unit"
)

// memory is what the processes that stay with a started job have for
// themselves, in KiB.
type memory struct {
	isolation      string
	keeper, reaper int
}

// most is what both together may have, in KiB.
const most = 3 << 10

// String is a row of the table.
func (m memory) String() string {
	sum := m.keeper + m.reaper
	return fmt.Sprintf("%-36s keeper %.2f MiB  reaper %.2f MiB  together %.2f MiB, at most %.1f: %s", "private memory, start --isolation "+m.isolation,
		mib(m.keeper), mib(m.reaper), mib(sum), mib(most), verdict(sum <= most))
}

func mib(kib int) float64 { return float64(kib) / 1024 }

// settle is how long a keeper is left alone before it is measured.
const settle = 2 * time.Second

func keeperMemory(unitward, isolation string) (m memory, err error) {
	m.isolation = isolation
	dir, err := os.MkdirTemp("", "unitward-bench-")
	if err != nil {
		return m, err
	}
	defer os.RemoveAll(dir)
	const name = "bench-memory"
	do := func(args ...string) error {
		out, err := exec.Command(unitward, append([]string{"--state-dir", filepath.Join(dir, "state")}, args...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := do("start", "-u", name, "--isolation", isolation, "--output", "null", "--", "sleep", "1000"); err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, do("stop", "-q", "--grace", "1s", name)) }()
	b, err := os.ReadFile(filepath.Join(dir, "state", "jobs", name, "job.json"))
	if err != nil {
		return m, err
	}
	var rec unit.Record
	if err := json.Unmarshal(b, &rec); err != nil {
		return m, err
	}
	time.Sleep(settle)
	if m.keeper, err = private(rec.Keeper.PID); err == nil {
		m.reaper, err = private(rec.Reaper.PID)
	}
	return m, err
}

// private is the memory that a process shares with nobody, in KiB
// (proc_pid_smaps(5)).
func private(pid int) (kib int, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if name, value, _ := strings.Cut(line, ":"); strings.HasPrefix(name, "Private_") {
			var n int
			if _, err := fmt.Sscan(value, &n); err != nil {
				return 0, fmt.Errorf("cannot read %q: %w", line, err)
			}
			kib += n
		}
	}
	return kib, nil
}
