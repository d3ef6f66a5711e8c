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

// ReadCaller reads the file mode creation mask and the resource limits that
// this process was started with. Reading the mask means to set it, so no
// other goroutine may create files meanwhile.
func ReadCaller() Caller {
	var c Caller
	old := syscall.Umask(0o077)
	syscall.Umask(old)
	c.Umask = uint32(old)
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
