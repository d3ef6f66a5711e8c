package dbusclient

import (
	"context"
	"net"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/unit"
)

// bridgeTimeout is dialTimeout for a bridge: somebody may have to type a
// password. It is sd-bus's own bound of an authentication (BUS_AUTH_TIMEOUT).
const bridgeTimeout = 90 * time.Second

// bridgedName is how long a bus that a bridge leads to may be without a manager:
// the connection may have started it, and the manager comes to it then. There is
// no other place to look for one.
const bridgedName = 5 * time.Second

// Bridge leads to a bus that is not to be reached by a socket of this machine,
// through a program that passes messages on, as systemd-stdio-bridge does.
// Descriptors do not go that way.
type Bridge struct {
	// Name says what it is, for people.
	Name string
	// Dial begins to pass. It does not wait for the other side.
	Dial func(ctx context.Context) (Passage, error)
}

// Passage is one connection through a bridge.
type Passage struct {
	Conn *net.UnixConn
	// End ends the program, once Conn is closed, and returns what it had to say
	// of its end; nil is nothing. It can be called again.
	End func() error
}

// wire connects to the address.
func (a address) wire(ctx context.Context, uid int, deliver func(*dbus.Message)) (*wire, error) {
	if a.bridge == nil {
		return dialWire(a.path, uid, deliver)
	}
	p, err := a.bridge.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return newWire(p, uid, "", deliver), nil
}

// Pauses between attempts to reconnect by a bridge, each of which is a program,
// and a log-in elsewhere.
const (
	firstBridgeRetry = time.Second
	maxBridgeRetry   = 30 * time.Second
)

// retries are the bounds of the pauses between attempts to reconnect.
func (c *Client) retries() (first, most time.Duration) {
	if c.env.Bridge != nil {
		return firstBridgeRetry, maxBridgeRetry
	}
	return firstRetry, maxRetry
}

// Far is who the manager is, for one that is elsewhere: the last that answered.
func (c *Client) Far() unit.Far {
	l := c.current()
	return unit.Far{Remote: c.env.Remote, MachineID: l.machine, Began: l.began}
}

// HoldSlice is the name of the slice that holds a service elsewhere, from a job's
// nonce.
func HoldSlice(nonce string) string { return "unitwardhold" + nonce + ".slice" }

// StopUnit is Unit.Stop for a unit that is not followed.
func (c *Client) StopUnit(ctx context.Context, name string) error { return c.unit(name).Stop(ctx) }
