package launch

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"

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

// CheckUser refuses what can be no user or group, by the rules of User=
// (systemd.exec(5)); an empty one is none. Whether there is one of the name or number, the start says.
// The error is an *AskError.
func CheckUser(name string) error {
	const help = "give a name, or a number below 4294967295 that is not 65535"
	if name == "" {
		return nil // none was named
	}
	number := strings.Trim(name, "0123456789") == ""
	switch n, err := strconv.ParseUint(name, 10, 32); {
	case number && (err != nil || n == 65535 || n == 1<<32-1):
		return &AskError{"it is no number of a user or group", help}
	case !number && (name[0] == '-' || strings.ContainsAny(name, ":/ \t\n")):
		return &AskError{"it is no name of a user or group", help}
	}
	return nil
}

// nobody is the error of a search for a user or group.
func nobody(kind, who string, err error) error {
	var name user.UnknownUserError
	var id user.UnknownUserIdError
	var group user.UnknownGroupError
	var gid user.UnknownGroupIdError
	if errors.As(err, &name) || errors.As(err, &id) || errors.As(err, &group) || errors.As(err, &gid) {
		database := map[string]string{"user": "passwd", "group": "group"}[kind]
		return &AskError{fmt.Sprintf("cannot run as %s %q: there is none of that name or number", kind, who), "getent " + database + " lists them"}
	}
	return fmt.Errorf("cannot run as %s %q: %w", kind, who, err)
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
			return nil, nobody("user", who, err)
		}
		if u, err = user.LookupId(who); err != nil {
			return nil, nobody("user", who, err)
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
			if _, nerr := strconv.ParseUint(s.GID, 10, 32); nerr == nil {
				g, err = user.LookupGroupId(s.GID)
			}
			if err != nil {
				return nil, nobody("group", s.GID, err)
			}
		}
		c.GID = number(g.Gid)
	}
	return c, nil
}
