package dbusclient

import (
	"context"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

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
	// back is closed when a lost link was replaced.
	back chan struct{}
	done chan struct{}
}

// Dial finds the manager and connects to it. The error is a
// *unit.NoManagerError that lists each address with the reason.
func Dial(ctx context.Context, m unit.Manager, env Environment) (*Client, error) {
	c := &Client{manager: m, env: env, pump: newPump(), done: make(chan struct{}), back: make(chan struct{})}
	l, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.link = l
	go c.attend(l)
	return c, nil
}

func (c *Client) connect(ctx context.Context) (*link, error) {
	var tried []string
	for _, a := range addresses(c.manager, c.env) {
		l, err := dial(ctx, a, c.manager, c.env.UID, c.pump)
		if err == nil {
			c.pump.setOwner(l.owner)
			return l, nil
		}
		tried = append(tried, a.String()+": "+sentence(err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, &unit.NoManagerError{Manager: c.manager, Tried: tried}
}

// Pauses between attempts to reconnect.
const (
	firstRetry = 20 * time.Millisecond
	maxRetry   = time.Second
)

// attend waits for the link to break and replaces it, until Close.
func (c *Client) attend(l *link) {
	for {
		select {
		case <-c.done:
			return
		case <-l.wire.done:
		}
		c.pump.pokeAll()
		l = c.reconnect()
		if l == nil {
			return
		}
	}
}

// reconnect returns nil when the client was closed.
func (c *Client) reconnect() *link {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		select {
		case <-c.done:
			return nil
		case <-time.After(pause):
		}
		l, err := c.connect(ctx)
		if err != nil {
			continue
		}
		// Match and reference before anybody reads: what happens after the
		// read is then signalled again.
		for path, f := range c.pump.paths() {
			follow(l, path, f.name)
			if l.addr.bus {
				// A unit that is gone cannot be held; the next read says so.
				_ = l.send(ctx, path, sdUnit+".Ref").wait()
			}
		}
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			l.wire.Close()
			return nil
		}
		c.link = l
		close(c.back)
		c.back = make(chan struct{})
		c.mu.Unlock()
		c.pump.pokeAll()
		return l
	}
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
	return c.link.wire.Close()
}

func (c *Client) current() *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link
}

// Manager is the manager that the client speaks with.
func (c *Client) Manager() unit.Manager { return c.manager }

// Version is systemd's major version; 0 when it could not be read.
func (c *Client) Version() int { return c.current().version }

// Address is where the manager answers, for people.
func (c *Client) Address() string { return c.current().addr.String() }

// References reports whether the connection can hold a unit loaded after its
// end. Without it (private socket) an exit must be recorded by the unit.
func (c *Client) References() bool { return c.current().addr.bus }

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

// Environ is the environment that the manager gives to every unit. It was
// asked for when the client connected, and is asked for again at later calls.
func (c *Client) Environ(ctx context.Context) ([]string, error) {
	c.mu.Lock()
	l := c.link
	asked := l.environ
	l.environ = nil
	c.mu.Unlock()
	if asked == nil {
		asked = l.askEnviron(ctx)
	}
	var v godbus.Variant
	if err := asked.wait(&v); err != nil {
		return nil, c.typed("ask for the manager's environment", "", "", err)
	}
	env, _ := v.Value().([]string)
	return env, nil
}

// unitPath is the object path of a unit, which follows from its name.
func unitPath(name string) godbus.ObjectPath {
	return godbus.ObjectPath("/org/freedesktop/systemd1/unit/" + dbus.PathBusEscape(name))
}

// follow asks for the signals of one unit.
func follow(l *link, path godbus.ObjectPath, name string) {
	if l.addr.bus { // a private socket sends everything
		l.match(matchUnit(path))
		l.match(matchJobs(name))
	}
}

// A match rule does not escape quotes. Neither an escaped object path nor a
// checked unit name has any.
func matchUnit(path godbus.ObjectPath) string {
	return "type='signal',sender='" + sdName + "',interface='" + propsIfc + "',member='PropertiesChanged',path='" + string(path) + "'"
}

func matchJobs(name string) string {
	return "type='signal',sender='" + sdName + "',interface='" + sdMgr + "',member='JobRemoved',path='" + string(sdPath) + "',arg2='" + name + "'"
}
