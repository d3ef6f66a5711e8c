package dbusclient

import "strings"

// A manager that is reloaded or executes itself anew before it has executed a
// command reads it again from the unit file that it wrote of the request: what was
// written wrong is then what is executed. Seen of systemd 247, 252, 257 and 262:
//
//	247 writes the arguments right, 252 those with "$" and ";" wrong, 257 and 262
//	those with "$", unless the command has the flag no-env-expand;
//	247 and 252 write a command of ExecStartEx under that name, which no unit file
//	may have, and lose it, 257 and 262 write it right;
//	none quotes the path of the executable.

// versionKeepsFlags is the first systemd whose commands with flags are kept: see above.
const versionKeepsFlags = 257

// versionKeepsAll is the last systemd known that keeps every argument without flags.
const versionKeepsAll = 247

// KeepsCommand reports whether a manager of that version executes a command as it
// was asked to also where it is reloaded in between. Where it does not, what is to
// be executed had better not stand in the request. An unknown version, 0, keeps
// what every one does.
func KeepsCommand(version int, path string, argv []string) bool {
	if strings.ContainsFunc(path, needsQuotes) {
		return false
	}
	if version >= versionKeepsFlags || version == versionKeepsAll {
		return true
	}
	for _, a := range argv {
		if strings.ContainsAny(a, "$;") {
			return false
		}
	}
	return true
}

// needsQuotes is true for what means something to who reads a command in a unit
// file, or may.
func needsQuotes(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("/_.,:+=@-", r)
}

// execCommand is an element of ExecStart, a(sasb).
type execCommand struct {
	Path          string
	Argv          []string
	IgnoreFailure bool
}

// execCommandEx is an element of ExecStartEx, a(sasas) (systemd 243).
type execCommandEx struct {
	Path  string
	Argv  []string
	Flags []string
}

// command adds a command of a service by the property that the manager keeps, with
// every argument to be taken literally. privileged is to execute it as the
// manager's user whatever User= says, and outside of what confines the service.
func command(add func(string, any), name string, version int, path string, argv []string, ignoreFailure, privileged bool) {
	if version < versionKeepsFlags {
		add(name, []execCommand{{path, literal(argv), ignoreFailure}})
		if privileged {
			add("PermissionsStartOnly", true) // it is for all but ExecStart
		}
		return
	}
	flags := []string{"no-env-expand"}
	if ignoreFailure {
		flags = append(flags, "ignore-failure")
	}
	if privileged {
		flags = append(flags, "privileged")
	}
	add(name+"Ex", []execCommandEx{{path, argv, flags}})
}

// literal doubles every "$", which the manager would otherwise expand; "%" is
// not touched over the bus.
func literal(argv []string) []string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = strings.ReplaceAll(a, "$", "$$")
	}
	return out
}
