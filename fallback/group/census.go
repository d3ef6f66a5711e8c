package group

import (
	"errors"
	"io/fs"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/verify"
)

// maxMembers bounds how many members are described.
const maxMembers = 256

// census is who was in the group or its session.
type census struct {
	found []proc.Stat
	// members describes the first of them.
	members []verify.Member
}

// count takes the census. A process can make another while the list is gone
// through, and end, so that neither is in it: when nobody is found, those are
// looked at that came meanwhile.
func (g *Group) count() (*census, error) {
	c, seen := &census{}, map[int]bool{}
	for range 2 {
		pids, err := g.dir.PIDs()
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			if err := g.add(c, pid); err != nil {
				return nil, err
			}
		}
		if len(c.found) > 0 {
			break
		}
	}
	return c, nil
}

func (g *Group) add(c *census, pid int) error {
	s, err := g.dir.Stat(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil // gone, or not to be seen (hidepid=noaccess), which a scan says
	case err != nil: // out of descriptors, for one
		return err
	case s.PGID != g.id.PGID && s.Session != g.id.Session:
		return nil
	}
	c.found = append(c.found, s)
	if len(c.members) == maxMembers {
		return nil
	}
	p, err := g.dir.Open(pid)
	if err != nil { // it ended just now
		c.members = append(c.members, verify.Member{PID: pid, State: string(s.State), Command: "[" + s.Comm + "]"})
		return nil
	}
	defer p.Close()
	c.members = append(c.members, p.Member(s))
	return nil
}
