package launch

import (
	"fmt"
	"os"
	"os/user"
	"strconv"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// giveTerminal makes a job's terminal its user's, for programs that look for it
// by its name. Who may not, or what user is meant, the start itself will say.
func giveTerminal(s *unit.Spec, tty *os.File) {
	if !s.PTY || s.UID == "" {
		return
	}
	if c, err := credential(s); err == nil {
		_ = tty.Chown(int(c.UID), -1)
	}
}

// credential is the user that a job runs as, with its groups; nil where none
// was asked for. Names and numbers are taken as systemd takes User= and
// Group= (systemd.exec(5)).
func credential(s *unit.Spec) (*keeper.Credential, error) {
	if s.UID == "" && s.GID == "" {
		return nil, nil
	}
	who := s.UID
	if who == "" {
		who = "0"
	}
	u, err := user.Lookup(who)
	if err != nil {
		if _, nerr := strconv.ParseUint(who, 10, 32); nerr != nil {
			return nil, fmt.Errorf("cannot run as %q: %w", who, err)
		}
		if u, err = user.LookupId(who); err != nil {
			return nil, fmt.Errorf("cannot run as %q: %w", who, err)
		}
	}
	c := &keeper.Credential{}
	groups, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot run as %q: %w", who, err)
	}
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		if _, err := strconv.ParseUint(id, 10, 32); err != nil {
			return nil, fmt.Errorf("cannot run as %q: its number %q is none", who, id)
		}
	}
	number := func(s string) uint32 { n, _ := strconv.ParseUint(s, 10, 32); return uint32(n) }
	c.UID, c.GID = number(u.Uid), number(u.Gid)
	for _, id := range groups {
		c.Groups = append(c.Groups, number(id))
	}
	if s.GID != "" {
		g, err := user.LookupGroup(s.GID)
		if err != nil {
			if g, err = user.LookupGroupId(s.GID); err != nil {
				return nil, fmt.Errorf("cannot run as group %q: %w", s.GID, err)
			}
		}
		c.GID = number(g.Gid)
	}
	return c, nil
}
