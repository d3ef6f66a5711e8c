package dbusclient

import (
	"context"
	"errors"
	"path"
	"slices"
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

// Pauses between attempts to reconnect.
const (
	firstRetry = 20 * time.Millisecond
	maxRetry   = time.Second
)

// attend waits for the link to break and replaces it, until Close. A bus that
// is lost is replaced by the private socket at once, where there is one: it
// holds no unit loaded, but it tells of every end. As soon as there is a bus
// again it takes over.
func (c *Client) attend(l *link) {
	for l != nil {
		if c.bus && !l.addr.bus {
			if l = c.relieve(l); l != nil && l.addr.bus {
				continue
			}
		}
		if l == nil {
			return
		}
		select {
		case <-c.done:
			return
		case <-l.wire.done:
		}
		c.pump.pokeAll()
		l = c.reconnect()
	}
}

// until is a context that ends with the client, and with other.
func (c *Client) until(other <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-c.done:
			cancel()
		case <-other:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// relieve waits for a bus that can take over from a private socket, and
// returns it; or the private socket when that has ended, or nil at Close.
func (c *Client) relieve(l *link) *link {
	ctx, cancel := c.until(l.wire.done)
	defer cancel()
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		select {
		case <-c.done:
			return nil
		case <-l.wire.done:
			return l
		case <-time.After(pause):
		}
		b, err := c.connect(ctx, c.places(true))
		if err != nil {
			continue
		}
		if !c.install(ctx, b) {
			return nil
		}
		// Calls that are under way on the old one get their answers still.
		c.retire(l)
		c.pump.pokeAll()
		return b
	}
}

func (c *Client) retire(l *link) {
	c.mu.Lock()
	old := c.retired
	c.retired = l
	c.mu.Unlock()
	if old != nil {
		_ = old.wire.Close()
	}
	time.AfterFunc(callTimeout, func() { _ = l.wire.Close() })
}

// places are the addresses to connect to again: buses only, or the private
// sockets first for a client that lost its bus.
func (c *Client) places(buses bool) []address {
	all := addresses(c.manager, c.env)
	if buses {
		return slices.DeleteFunc(all, func(a address) bool { return !a.bus })
	}
	if c.bus {
		slices.SortStableFunc(all, func(a, b address) int {
			switch {
			case a.bus == b.bus:
				return 0
			case b.bus:
				return -1
			}
			return 1
		})
	}
	return all
}

// reconnect returns nil when the client was closed.
func (c *Client) reconnect() *link {
	ctx, cancel := c.until(nil)
	defer cancel()
	first, most := c.retries()
	for pause := time.Duration(0); ; pause = min(max(2*pause, first), most) {
		select {
		case <-c.done:
			return nil
		case <-time.After(pause):
		}
		l, err := c.connect(ctx, c.places(false))
		if err != nil {
			continue
		}
		if !c.install(ctx, l) {
			return nil
		}
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
	if asked == nil {
		asked = l.askEnviron(ctx)
	}
	at := time.Now()
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

// follow asks for the signals of one unit.
func follow(l *link, path dbus.ObjectPath, name string) {
	if l.addr.bus { // a private socket sends everything
		l.match(matchUnit(path))
		l.match(matchJobs(name))
	}
}

// widen asks for the signals of all units.
func widen(l *link) {
	if l.addr.bus {
		l.match(matchUnits)
		l.match(matchAllJobs)
	}
}

// narrow takes that back.
func narrow(l *link) {
	l.tell(busName, busPath, busName+".RemoveMatch", matchUnits)
	l.tell(busName, busPath, busName+".RemoveMatch", matchAllJobs)
}

const (
	matchUnits   = "type='signal',sender='" + sdName + "',interface='" + propsIfc + "',member='PropertiesChanged',path_namespace='" + string(sdPath) + "/unit'"
	matchAllJobs = "type='signal',sender='" + sdName + "',interface='" + sdMgr + "',member='JobRemoved',path='" + string(sdPath) + "'"
)

// A match rule does not escape quotes. Neither an escaped object path nor a
// checked unit name has any.
func matchUnit(path dbus.ObjectPath) string {
	return "type='signal',sender='" + sdName + "',interface='" + propsIfc + "',member='PropertiesChanged',path='" + string(path) + "'"
}

func matchJobs(name string) string {
	return "type='signal',sender='" + sdName + "',interface='" + sdMgr + "',member='JobRemoved',path='" + string(sdPath) + "',arg2='" + name + "'"
}
