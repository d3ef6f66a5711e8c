package dbusclient

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/unit"
)

// Client is a connection to one manager. It reconnects by itself when the
// connection is lost, and follows its units again. It is safe for concurrent
// use.
type Client struct {
	manager unit.Manager
	env     Environment
	pump    *pump

	mu     sync.Mutex
	link   *link
	closed bool
	// environ is the manager's environment as it said at environAt.
	environ   []string
	environAt time.Time
	// retired is a private socket that a bus has taken over from.
	retired *link
	done    chan struct{}

	// holds is held while it is asked for the signals and the reference of a
	// unit, or while they are given back; mu is taken within it.
	holds sync.Mutex
	// wide is the link on which the signals of all units were asked for; nil
	// for none. It is for who holds holds.
	wide *link
	// held is how many units are held on the current link. It is for who holds
	// holds.
	held int
	// stops are the units that are being stopped. It is for who holds holds.
	stops int
	// bus is true for a connection that began on a bus.
	bus bool
}

// Dial finds the manager and connects to it. The error is a
// *unit.NoManagerError that lists each address with the reason.
func Dial(ctx context.Context, m unit.Manager, env Environment) (*Client, error) {
	c := &Client{manager: m, env: env, pump: newPump(), done: make(chan struct{})}
	l, err := c.connect(ctx, addresses(m, env))
	if err != nil {
		return nil, err
	}
	c.link, c.bus = l, l.addr.bus
	go c.attend(l)
	return c, nil
}

func (c *Client) connect(ctx context.Context, where []address) (*link, error) {
	var tried []string
	silent := false
	for _, a := range where {
		l, err := dial(ctx, a, c.manager, c.env.UID, c.pump)
		if err == nil {
			if a.bus {
				c.pump.setOwner(l.owner)
			}
			return l, nil
		}
		tried = append(tried, a.String()+": "+sentence(err))
		silent = silent || errors.Is(err, context.DeadlineExceeded)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, &unit.NoManagerError{Manager: c.manager, Remote: c.env.Remote, Tried: tried, Silent: silent}
}

// Close ends the connection and with it every reference to a unit.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	close(c.done)
	if c.retired != nil {
		_ = c.retired.wire.Close()
	}
	return c.link.wire.Close()
}

// Descriptor is a copy of the connection's present descriptor, which the caller
// closes; -1 when there is none. Who holds it keeps the connection up when this
// process is killed, until Close.
func (c *Client) Descriptor() int { return c.current().wire.descriptor() }

func (c *Client) current() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// Manager is the manager that the client speaks with.
func (c *Client) Manager() unit.Manager { return c.manager }

// HeardAt is when a signal or an answer came last. While a manager that has much to
// do is heard of, what it has not said yet may still come.
func (c *Client) HeardAt() time.Time { return time.Unix(0, c.current().wire.heard.Load()) }

// Version is systemd's major version; 0 when it could not be read.
func (c *Client) Version() int { return c.current().version }

// Address is where the manager answers, for people.
func (c *Client) Address() string { return c.current().addr.String() }

// References reports whether the connection can hold one more unit loaded after its
// end. Without it (a private socket, or many units of the system's manager) an exit
// must be recorded by the unit.
func (c *Client) References() bool {
	c.holds.Lock()
	defer c.holds.Unlock()
	return c.current().addr.bus && (c.manager != unit.ManagerSystem || c.held < manyHeld)
}

// Bridged reports whether a private socket stands in for a lost bus. What was
// sent by that bus may still be on its way to the manager then.
func (c *Client) Bridged() bool { return c.bus && !c.current().addr.bus }

// ControlGroup is the manager's own cgroup, below which all its units are.
func (c *Client) ControlGroup() string {
	if root := c.current().root; root != "" {
		return root
	}
	return "/"
}

// UnitCgroup is where the manager makes the cgroup of a unit in a slice: a
// slice's name says which slices it is in (systemd.slice(5)).
func (c *Client) UnitCgroup(slice, name string) string {
	p := c.ControlGroup()
	base := strings.TrimSuffix(slice, ".slice")
	for i := 0; i <= len(base) && base != "-"; i++ {
		if i == len(base) || base[i] == '-' {
			p = path.Join(p, base[:i]+".slice")
		}
	}
	return path.Join(p, name)
}

// environTime is for how long an answer of the manager about its environment is
// taken to be good. Nobody changes that while he starts many units.
const environTime = time.Second

// Environ is the environment that the manager gives to every unit; not to be
// changed. It was asked for when the client connected, and is asked for again at
// later calls, but not for each of many that come together.
func (c *Client) Environ(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	l := c.link
	if c.environ != nil && time.Since(c.environAt) < environTime {
		defer c.mu.Unlock()
		return c.environ, nil
	}
	asked := l.environ
	l.environ = nil
	c.mu.Unlock()
	at := time.Now()
	if asked != nil && at.Sub(l.environAt) >= environTime {
		asked.drop()
		asked = nil
	}
	if asked == nil {
		asked = l.askEnviron(ctx)
	}
	var v dbus.Variant
	if err := asked.wait(&v); err != nil {
		return nil, c.typed("ask for the manager's environment", "", "", err)
	}
	env, _ := v.Value().([]string)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.environ, c.environAt = env, at
	return env, nil
}

// unitPath is the object path of a unit, which follows from its name.
func unitPath(name string) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + pathEscape(name))
}

// pathEscape makes an element of an object path of a name: what is no letter or
// digit, and a digit at the beginning, is written as _ and two hexadecimal
// digits (sd_bus_path_encode(3)).
func pathEscape(name string) string {
	if name == "" {
		return "_"
	}
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(name)+16)
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9' && i > 0:
			b = append(b, c)
		default:
			b = append(b, '_', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}
