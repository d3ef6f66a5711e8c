package unit

import (
	"strings"
)

// RemoteError says what is wrong with the name of a host or machine.
type RemoteError struct{ Why string }

func (e *RemoteError) Error() string { return e.Why }

// Is makes it one of what was asked for (ErrUsage).
func (e *RemoteError) Is(target error) bool { return target == ErrUsage }

// ThisMachine is how systemd names the machine that a program runs on.
const ThisMachine = ".host"

// maxRemote bounds the name of a host or machine in bytes.
const maxRemote = 512

// HostAddress is what Remote.Host says.
type HostAddress struct {
	// Login is [USER@]HOST, without brackets, Port and Container are empty where
	// none was given.
	Login, Port, Container string
}

// ParseHost reads a host as systemd does (systemctl(1), --host;
// bus_set_address_system_remote()): [USER@]HOST[:PORT][/CONTAINER], where an
// address with colons is in brackets, and :CONTAINER is the older form. The
// error is a *RemoteError.
func ParseHost(s string) (HostAddress, error) {
	var a HostAddress
	user, rest, named := strings.Cut(s, "@")
	if !named {
		user, rest = "", s
	}
	if strings.HasPrefix(s, "-") {
		return a, &RemoteError{"[USER@]HOST[:PORT][/CONTAINER] is expected"} // ssh would take it for an option
	}
	var host string
	if strings.HasPrefix(rest, "[") {
		in, after, closed := strings.Cut(rest[1:], "]")
		if !closed {
			return a, &RemoteError{"its address begins with [, and a ] is expected"}
		}
		host, rest = in, after
	} else {
		i := strings.IndexAny(rest, ":/")
		if i < 0 {
			i = len(rest)
		}
		host, rest = rest[:i], rest[i:]
	}
	if tail, ok := strings.CutPrefix(rest, ":"); ok {
		port, container, both := strings.Cut(tail, "/")
		switch {
		case digits(port):
			a.Port = port
		case both:
			return a, &RemoteError{"a number is expected as its port"}
		default:
			container, both = port, true
		}
		a.Container, rest = container, ""
		if both && !machineName(container) {
			return a, &RemoteError{"[USER@]HOST[:PORT][/CONTAINER] is expected"}
		}
	}
	if tail, ok := strings.CutPrefix(rest, "/"); ok {
		if a.Container, rest = tail, ""; !machineName(tail) {
			return a, &RemoteError{"the name of a container is expected after /"}
		}
	}
	if rest != "" || host == "" || named && user == "" || strings.ContainsFunc(user+host, notInLogin) ||
		strings.HasPrefix(user, "-") || strings.HasPrefix(host, "-") || len(s) > maxRemote {
		return a, &RemoteError{"[USER@]HOST[:PORT][/CONTAINER] is expected"}
	}
	if a.Login = host; named {
		a.Login = user + "@" + host
	}
	return a, nil
}

// ParseMachine reads a machine as systemd does (systemctl(1), --machine;
// bus_set_address_machine()): [USER@]NAME. at is true where there is an @; an
// empty user is then the caller's, and an empty name ThisMachine. The error is a
// *RemoteError.
func ParseMachine(s string) (user, name string, at bool, err error) {
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		user, name, at = s[:i], s[i+1:], true
	} else {
		name = s
	}
	if name == "" && at {
		name = ThisMachine
	}
	if name != ThisMachine && !machineName(name) || len(s) > maxRemote ||
		strings.HasPrefix(user, "-") || strings.ContainsFunc(user, notInLogin) {
		return "", "", false, &RemoteError{"[USER@]NAME is expected: the name of a machine, or .host for this one"}
	}
	return user, name, at, nil
}

// Bridge is the command whose standard streams lead to the bus of a manager that
// is elsewhere, as sd-bus has it. ssh is the program to take for it, self the
// name of the caller. r is one that was parsed.
func (r Remote) Bridge(m Manager, ssh, self string) ([]string, error) {
	if r.Host != "" {
		a, err := ParseHost(r.Host)
		if err != nil {
			return nil, err
		}
		argv := []string{ssh, "-xT"}
		if a.Port != "" {
			argv = append(argv, "-p", a.Port)
		}
		argv = append(argv, "--", a.Login, "systemd-stdio-bridge")
		if a.Container != "" {
			argv = append(argv, "--machine="+a.Container)
		}
		return argv, nil
	}
	user, name, at, err := ParseMachine(r.Machine)
	if err != nil {
		return nil, err
	}
	if !at && m == ManagerSystem {
		return []string{"systemd-stdio-bridge", "--machine=" + name}, nil
	}
	// A user's bus is found in a session of that user alone, which
	// systemd-run makes.
	switch {
	case !at:
		user = "root"
	case user == "":
		user = self
	}
	argv := []string{"systemd-run"}
	if name != ThisMachine {
		argv = append(argv, "--machine="+name)
	}
	argv = append(argv, "--pipe", "--collect", "--quiet", "--wait", "--property=User="+user, "--property=PAMName=login", "systemd-stdio-bridge")
	if m == ManagerUser {
		argv = append(argv, "--bus-path=unix:path=${XDG_RUNTIME_DIR}/bus")
	}
	return argv, nil
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// machineName is true for what names a machine: a host's name.
func machineName(s string) bool {
	return s != "" && len(s) <= 64 && s[0] != '.' && s[0] != '-' && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._", r)
	})
}

// notInLogin is true for what no user or host has in its name.
func notInLogin(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"'\/@[]$;&|<>()*?!{}`+"`", r)
}
