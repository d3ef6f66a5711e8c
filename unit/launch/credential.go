package launch

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
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
	if c, _, err := credential(s); err == nil {
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
// Group= (systemd.exec(5)). user is nil where the job stays the caller's.
func credential(s *unit.Spec) (c *keeper.Credential, who *user.User, err error) {
	if s.UID == "" && s.GID == "" {
		return nil, nil, nil
	}
	c = &keeper.Credential{UID: uint32(os.Geteuid())}
	if s.GID != "" {
		g, err := user.LookupGroup(s.GID)
		if err != nil {
			if _, nerr := strconv.ParseUint(s.GID, 10, 32); nerr == nil {
				g, err = user.LookupGroupId(s.GID)
			}
			if err != nil {
				return nil, nil, nobody("group", s.GID, err)
			}
		}
		if c.GID, err = number(g.Gid, s.GID); err != nil {
			return nil, nil, err
		}
		c.Groups = []uint32{c.GID}
	}
	if s.UID == "" {
		return c, nil, nil
	}
	if who, err = user.Lookup(s.UID); err != nil {
		if _, nerr := strconv.ParseUint(s.UID, 10, 32); nerr != nil {
			return nil, nil, nobody("user", s.UID, err)
		}
		if who, err = user.LookupId(s.UID); err != nil {
			return nil, nil, nobody("user", s.UID, err)
		}
	}
	if c.UID, err = number(who.Uid, s.UID); err != nil {
		return nil, nil, err
	}
	member := *who
	if s.GID != "" {
		member.Gid = strconv.FormatUint(uint64(c.GID), 10) // which initgroups(3) puts in the place of the user's own
	}
	groups, err := member.GroupIds()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot run as %q: %w", s.UID, err)
	}
	c.Groups = nil
	for _, id := range groups {
		n, err := number(id, s.UID)
		if err != nil {
			return nil, nil, err
		}
		c.Groups = append(c.Groups, n)
	}
	if s.GID == "" {
		c.GID, err = number(who.Gid, s.UID)
	}
	return c, who, err
}

// number is that of a user or group.
func number(id, of string) (uint32, error) {
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("cannot run as %q: its number %q is none", of, id)
	}
	return uint32(n), nil
}

// callersUser is true for a variable that says who the caller is, where the job is of
// another user and was not given it: systemd says it of that one (systemd.exec(5),
// "Environment Variables in Spawned Processes").
func callersUser(s *unit.Spec) func(kv string) bool {
	others := s.NamesUser()
	return func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return others && saysUser(name) && !slices.Contains(s.Assigned, name)
	}
}

func saysUser(name string) bool {
	return name == "HOME" || name == "LOGNAME" || name == "USER" || name == "SHELL"
}

// environAs is a job's environment with what says who it runs as, as systemd-run has
// it for a scope. nil is the caller.
func environAs(s *unit.Spec, who *user.User) []string {
	if who == nil {
		return s.Env
	}
	said := []string{"HOME=" + who.HomeDir, "LOGNAME=" + who.Username, "USER=" + who.Username}
	if shell := loginShell(who.Username); shell != "" {
		said = append(said, "SHELL="+shell)
	}
	env := slices.Clone(s.Env)
	for _, kv := range said {
		name, _, _ := strings.Cut(kv, "=")
		if !slices.Contains(s.Assigned, name) {
			env = append(slices.DeleteFunc(env, func(has string) bool { return strings.HasPrefix(has, name+"=") }), kv)
		}
	}
	return env
}

// loginShell is the shell of a user that lets somebody in; empty is none.
func loginShell(name string) string {
	b, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[0] == name {
			if base := path.Base(f[6]); base != "nologin" && base != "false" && path.IsAbs(f[6]) {
				return f[6]
			}
			return ""
		}
	}
	return ""
}
