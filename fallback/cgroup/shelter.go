package cgroup

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// shelterSuffix ends the names of shelters. No job can be called so: "+" is in
// no name of one.
const shelterSuffix = "+keeper"

// Shelter is a cgroup beside those of units that this process is in, so that it
// does not end with the cgroup that it was started in: the whole of that is
// killed when a terminal or a session ends.
type Shelter struct {
	u   *Unit
	was string
}

// Shelter makes a cgroup for the keeper of the unit called name and moves this
// process there, all its threads. That takes milliseconds. The errors are those
// of Create, and those of the move, after which nothing is left.
func (p *Parent) Shelter(name string) (*Shelter, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cannot tell which cgroup is our own: %w", err)
	}
	was, ok := parseOwn(string(b))
	if !ok {
		return nil, p.unusable("/proc/self/cgroup names no cgroup of version 2")
	}
	u, err := p.Create(name + shelterSuffix)
	if err != nil {
		return nil, err
	}
	if _, err := unix.Write(int(u.procs.Fd()), []byte("0")); err != nil {
		_ = u.rmdir()
		u.Close()
		return nil, fmt.Errorf("cannot move to the cgroup %s: %w", u.Path, err)
	}
	return &Shelter{u: u, was: was}, nil
}

// Leave moves this process back to where it was and removes the shelter. Where
// that is gone it stays, and the shelter is left, empty once this process has
// ended, to the next unit that is removed beside it.
func (s *Shelter) Leave(ctx context.Context) {
	defer s.u.Close()
	dir, _, err := s.u.parent.h.beneath(s.was)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	procs, err := openFile(dir, "cgroup.procs", unix.O_WRONLY)
	if err != nil {
		return
	}
	defer unix.Close(procs)
	if _, err := unix.Write(procs, []byte("0")); err == nil {
		_ = s.u.Remove(ctx)
	}
}

// Unshelter removes the shelter beside a unit's cgroup, which a killed keeper
// left, if nobody is in it.
func (h *Hierarchy) Unshelter(cgroup string) {
	up, name := path.Split(cgroup)
	dir, _, err := h.beneath(path.Clean(up))
	if err != nil {
		return
	}
	defer unix.Close(dir)
	_ = unix.Unlinkat(dir, name+shelterSuffix, unix.AT_REMOVEDIR) // refused while somebody is
}

// sweep removes the shelters in an open directory that nobody is in any more.
func sweep(dir int) {
	names, err := children(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		if strings.HasSuffix(name, shelterSuffix) {
			_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) // refused while somebody is
		}
	}
}
