package keeper

import (
	"sync"

	"golang.org/x/sys/unix"
)

// own are those children of this process that are made here, in a session of their
// own, and are of no job: reapers, guards and keepers. They are the process's, as its
// children are, so that whoever makes one need not know of a Subreaper, nor that of him.
var own = ownChildren{pids: map[int]struct{}{}}

type ownChildren struct {
	mu   sync.Mutex
	pids map[int]struct{}
}

// add makes a child. The lock keeps it from being taken for a job's before it is
// known.
func (c *ownChildren) add(start func() (pid int, err error)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := start()
	if err == nil {
		c.pids[pid] = struct{}{}
	}
	return err
}

// reap waits for the end of a child, and has wait take its status: the number is
// forgotten before it can be another's.
func (c *ownChildren) reap(pid int, wait func() error) error {
	// Not under the lock: that takes as long as the child lives. Where it fails so
	// does what follows.
	_ = again(func() error {
		return unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	err := again(wait)
	delete(c.pids, pid)
	return err
}

// has is for who holds the lock.
func (c *ownChildren) has(pid int) bool {
	_, ok := c.pids[pid]
	return ok
}
