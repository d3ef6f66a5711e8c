package dbusclient

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/unitward/unitward/unit"
)

// address is one place where a manager may answer.
type address struct {
	// bus is true for a message bus, false for the manager's private socket,
	// which has neither Hello nor AddMatch nor references.
	bus bool
	// dial is the address in the D-Bus specification's syntax.
	dial string
	// path is the socket, or empty for an abstract one.
	path string
	// beside is the private socket of the manager whose bus this is; empty where it
	// can be anybody's.
	beside string
	// bridge leads there where no socket of this machine does; nil is none.
	bridge *Bridge
}

// besideName is how long the bus of a manager that is there may be without it: with the
// first connection the manager starts the bus itself, and enters it when that is up
// (manager_connect_bus()). A private socket, which holds no unit, would have to do for
// as long as the client lives.
const besideName = time.Second

// patience is how long a bus may be without a manager; 0 is not at all.
func (a address) patience() time.Duration {
	if a.bridge != nil {
		return bridgedName
	}
	if a.beside != "" {
		if _, err := os.Lstat(a.beside); err == nil {
			return besideName
		}
	}
	return 0
}

func (a address) String() string {
	if a.bridge != nil {
		return a.bridge.Name
	}
	if a.path != "" {
		return a.path
	}
	return a.dial
}

// Environment is what finding a manager depends on.
type Environment struct {
	// Getenv is os.Getenv or a stand-in.
	Getenv func(string) string
	// UID is the effective user id.
	UID int
	// Remote is where the manager is, and Bridge leads there; zero and nil for
	// one of this machine's own.
	Remote unit.Remote
	Bridge *Bridge
}

// addresses lists where the manager may answer, best first: buses before
// private sockets. Nothing is guessed from a session bus that D-Bus would
// start, since a bus that systemd did not start has no manager on it.
func addresses(m unit.Manager, env Environment) []address {
	if env.Bridge != nil {
		return []address{{bus: true, bridge: env.Bridge}}
	}
	var list []address
	add := func(a address) {
		for i := range list {
			if list[i].dial == a.dial {
				list[i].beside = a.beside
				return
			}
		}
		list = append(list, a)
	}
	const private = "/systemd/private"
	dirs, bus := []string{"/run"}, "/dbus/system_bus_socket"
	if m != unit.ManagerSystem {
		for _, one := range strings.Split(env.Getenv("DBUS_SESSION_BUS_ADDRESS"), ";") {
			if a, ok := parseBusAddress(one); ok {
				add(a)
			}
		}
		dirs, bus = []string{"/run/user/" + strconv.Itoa(env.UID)}, "/bus"
		if d := env.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) {
			dirs = []string{filepath.Clean(d), dirs[0]}
		}
	}
	for _, d := range dirs {
		a := busAt(d + bus)
		a.beside = d + private
		add(a)
	}
	if m == unit.ManagerSystem && env.UID != 0 {
		return list
	}
	for _, d := range dirs {
		add(privateAt(d + private))
	}
	return list
}

func busAt(path string) address {
	a := privateAt(path)
	a.bus = true
	return a
}

func privateAt(path string) address {
	return address{dial: "unix:path=" + escapeAddress(path), path: path}
}

// parseBusAddress takes one address of the D-Bus specification's "Server
// Addresses". Only unix sockets carry descriptors and our identity.
func parseBusAddress(s string) (address, bool) {
	rest, ok := strings.CutPrefix(s, "unix:")
	if !ok {
		return address{}, false
	}
	for _, kv := range strings.Split(rest, ",") {
		if v, ok := strings.CutPrefix(kv, "path="); ok {
			path, ok := unescapeAddress(v)
			if !ok || !filepath.IsAbs(path) {
				return address{}, false
			}
			return busAt(path), true
		}
	}
	return address{}, false
}

// escapeAddress writes a value as the specification wants it: what is not in
// the optionally-escaped set as %xx.
func escapeAddress(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_/.*", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func unescapeAddress(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		n, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(n))
		i += 2
	}
	return b.String(), true
}

// owned checks that the socket belongs to whom the manager must be: the user
// for a user manager, root for the system's. Another owner could be anybody.
func (a address) owned(m unit.Manager, uid int) error {
	if a.bridge != nil {
		return nil // it was asked for by name, and answers for itself
	}
	want := uid
	if m == unit.ManagerSystem {
		want = 0
	}
	info, err := os.Stat(a.path)
	if err != nil {
		var pe *os.PathError
		if errors.As(err, &pe) {
			return pe.Err
		}
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return errors.New("it is not a socket")
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != want {
		return fmt.Errorf("it belongs to uid %d, not %d", st.Uid, want)
	}
	return nil
}
