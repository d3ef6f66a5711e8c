package launch

import (
	"slices"
	"strings"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// causeOf is what a status of systemd's own mostly means (systemd.exec(5)), and
// what would help; empty for one that says it all by its name.
func causeOf(s *unit.Spec, code int) (cause, hint string) {
	user := s.Manager == unit.ManagerUser
	switch code {
	case statusChdir:
		dir := s.Dir
		if set := assigned(s, "WorkingDirectory"); len(set) > 0 {
			_, dir, _ = strings.Cut(set[len(set)-1], "=")
		}
		if dir != "" {
			dir = " " + dir
		}
		return "the working directory" + dir + " cannot be entered by the user it runs as", "name another with --working-directory"
	case statusFDs:
		if files := assigned(s, "OpenFile"); len(files) > 0 {
			return "a file cannot be opened: " + strings.Join(files, ", "), "add :NAME:graceful for one that may be missing"
		}
	case 217:
		if len(assigned(s, "UserNamespacePath")) > 0 {
			return "the user namespace cannot be entered, or the user it runs as is not there", "check UserNamespacePath= among -p"
		}
		fallthrough
	case 216:
		if user {
			return "a user manager can run a job as its own user, with that one's groups, alone", "leave out " + anotherUser(s) + ", or run it as root with --system"
		}
		return "there is no such user or group", "see getent passwd and getent group"
	case 213, 218:
		return "the capabilities or secure bits asked for cannot be had", "check those settings among -p, or run it as root with --system"
	case 225:
		return "the network namespace cannot be made", "check the network settings among -p"
	case 226:
		if user {
			return "a sandbox setting needs a mount namespace, which a user manager has only with user namespaces", "leave it out, add -p PrivateUsers=yes, or run it as root with --system"
		}
		return "the mount namespace for a sandbox setting cannot be made, or a path of it is missing", "check the paths among -p"
	case 228:
		return "the system call filter cannot be set", "check the SystemCall… settings among -p"
	case 233, 238, 239, 240, 241:
		return "a directory of a …Directory= setting cannot be made", "check those settings among -p"
	case 243:
		return "a credential cannot be loaded", "check the …Credential settings among -p"
	}
	return "", ""
}

// assigned are the assignments among a job's properties of those with these names.
func assigned(s *unit.Spec, names ...string) (out []string) {
	for _, p := range s.Properties {
		if name, _, _ := strings.Cut(p, "="); slices.Contains(names, name) {
			out = append(out, p)
		}
	}
	return out
}

// anotherUser is what asks for another user or group.
func anotherUser(s *unit.Spec) string {
	var given []string
	if s.UID != "" {
		given = append(given, "--uid")
	}
	if s.GID != "" {
		given = append(given, "--gid")
	}
	for _, p := range assigned(s, "User", "Group", "SupplementaryGroups", "DynamicUser") {
		given = append(given, "-p "+verify.Typed(p))
	}
	if len(given) == 0 {
		return "what asks for another"
	}
	return strings.Join(given, " and ")
}
