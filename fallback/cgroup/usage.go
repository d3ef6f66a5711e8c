package cgroup

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// OOM counts what the kernel killed for lack of memory in a unit, below it,
// and in cgroups below it that are gone.
type OOM struct {
	// Kills are processes that were killed.
	Kills uint64
	// GroupKills are kills of a whole cgroup (Linux 5.17; else 0).
	GroupKills uint64
}

// OOM reads memory.events. It fails with fs.ErrNotExist where the unit has no
// memory controller: nothing was limited then.
func (u *Unit) OOM() (OOM, error) {
	s, err := u.content("memory.events")
	if err != nil {
		return OOM{}, fmt.Errorf("cannot read memory.events of %s: %w", u.Path, err)
	}
	kills, ok := keyed(s, "oom_kill")
	if !ok {
		return OOM{}, fmt.Errorf("cannot read memory.events of %s: no oom_kill line in %q", u.Path, s)
	}
	group, _ := keyed(s, "oom_group_kill")
	return OOM{Kills: kills, GroupKills: group}, nil
}

// Usage reads what the unit has used until now, cgroups below it included.
// What this kernel or the unit's controllers do not count is nil: memory.peak
// needs Linux 5.19, pids.peak 6.1.
func (u *Unit) Usage() unit.Usage {
	var use unit.Usage
	if s, err := u.content("cpu.stat"); err == nil {
		if usec, ok := keyed(s, "usage_usec"); ok {
			ns := usec * 1000
			use.CPUNanoseconds = &ns
		}
	}
	use.MemoryPeak = u.number("memory.peak")
	use.TasksPeak = u.number("pids.peak")
	return use
}

func (u *Unit) number(name string) *uint64 {
	s, err := u.content(name)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(s, "\n"), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// content reads a file of the unit, also where the job changed its mode.
func (u *Unit) content(name string) (string, error) {
	fd, err := openFile(int(u.dir.Fd()), name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return rewind(fd)
}

// keyed takes one line of a flat keyed file (cgroup-v2.rst, "Format").
func keyed(s, key string) (uint64, bool) {
	for line := range strings.Lines(s) {
		if v, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), key+" "); ok {
			n, err := strconv.ParseUint(v, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
