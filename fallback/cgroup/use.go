package cgroup

import (
	"strconv"
	"strings"
)

// Use is what a cgroup, and those below it, use now. What this kernel or the
// cgroup's controllers do not count is nil.
type Use struct {
	// CPUNanoseconds is the time used until now.
	CPUNanoseconds *uint64
	// MemoryBytes is what is charged now, Tasks how many threads there are.
	MemoryBytes, Tasks *uint64
}

// Use reads cpu.stat, memory.current and pids.current. Where nothing is
// counted, or another cgroup stands at the path, it is empty.
func (g *Group) Use() Use {
	return Use{
		CPUNanoseconds: g.microseconds("cpu.stat", "usage_usec"),
		MemoryBytes:    g.number("memory.current"), Tasks: g.number("pids.current"),
	}
}

// Peaks reads memory.peak (Linux 5.19) and pids.peak (6.1): the most that the
// cgroup, and those below it, have had. What is not counted is nil.
func (g *Group) Peaks() (memory, tasks *uint64) {
	return g.number("memory.peak"), g.number("pids.peak")
}

func (g *Group) number(file string) *uint64 {
	s, err := g.File(file)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// microseconds is the value of a key in a flat keyed file, in nanoseconds.
func (g *Group) microseconds(file, key string) *uint64 {
	s, err := g.File(file)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(s) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil && n < 1<<54 {
				n *= 1000
				return &n
			}
		}
	}
	return nil
}
