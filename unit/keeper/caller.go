package keeper

import (
	"syscall"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper/nofile"
)

// Caller is what a process inherits and a job of the caller's must get.
type Caller struct {
	Umask   uint32
	Rlimits [len(unit.RlimitNames)]unit.Rlimit
}

// rlimitNofile is RLIMIT_NOFILE's number on Linux.
const rlimitNofile = 7

// ownMask is the file mode creation mask of a process of ours: what it makes
// is its user's alone.
const ownMask = 0o077

// ReadCaller reads the file mode creation mask and the resource limits that
// this process was started with. It comes before anything is created, and once:
// reading the mask means to set it, and from then on this process has a mask of
// its own, so that no file of ours depends on the caller's, which is the job's.
func ReadCaller() Caller {
	c := Caller{Umask: uint32(syscall.Umask(ownMask))}
	for i := range c.Rlimits {
		var r syscall.Rlimit
		if err := syscall.Getrlimit(i, &r); err == nil {
			c.Rlimits[i] = unit.Rlimit{Soft: r.Cur, Hard: r.Max}
		}
	}
	if soft, hard, ok := nofile.Original(); ok {
		c.Rlimits[rlimitNofile] = unit.Rlimit{Soft: soft, Hard: hard}
	}
	return c
}
