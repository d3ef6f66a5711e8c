package keeper

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// LowestNice is the lowest nice level that process pid may give itself without
// CAP_SYS_NICE: the one it has, or what its RLIMIT_NICE allows (getrlimit(2)).
// pid 0 is this process. The error is that of a process which is gone, or of
// another user.
func LowestNice(pid int) (int, error) {
	// The system call, other than getpriority(3), answers 20 minus the level.
	prio, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	if err != nil {
		return 0, fmt.Errorf("cannot read the nice level of process %d: %w", pid, err)
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NICE, nil, &limit); err != nil {
		return 0, fmt.Errorf("cannot read RLIMIT_NICE of process %d: %w", pid, err)
	}
	return lowestNice(prio, limit.Cur), nil
}

// lowestNice: both numbers are 20 minus a level.
func lowestNice(prio int, limit uint64) int { return 20 - max(prio, int(min(limit, 40))) }
