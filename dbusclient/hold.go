package dbusclient

import (
	"context"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// follow makes the pump take a unit's signals to u, and asks for them on the
// current link if nobody has. The caller holds c.holds.
func (c *Client) follow(u *Unit) (*link, *followed) {
	l := c.current()
	h := c.pump.follow(u.path, u.follower)
	if c.wide != l && c.pump.count() > manyUnits {
		widen(l)
		c.wide = l
	}
	if h.matched != l && c.wide != l {
		follow(l, u.path, u.name)
		h.matched = l
	}
	return l, h
}

// manyUnits is how many units are followed one by one. For more, the signals of
// all units are asked for at once: a bus looks through all rules of all its
// clients for each signal, and to set and drop two of them for each unit is more
// than half of what it has to do for a short job. What is another's is dropped
// here by its path.
const manyUnits = 4

// hold follows a unit and asks the manager to keep it loaded. asked is nil
// where nothing was asked: the connection cannot hold it, or does already.
func (c *Client) hold(ctx context.Context, u *Unit) (l *link, asked *pending) {
	c.holds.Lock()
	defer c.holds.Unlock()
	l, h := c.follow(u)
	if !l.addr.bus || h.held == l {
		return l, nil
	}
	h.held = l
	return l, l.send(ctx, u.path, sdUnit+".Ref")
}

// claim follows a unit that is about to be started on a link. ref says whether
// the start is to make a reference.
func (c *Client) claim(u *Unit) (l *link, ref bool) {
	c.holds.Lock()
	defer c.holds.Unlock()
	l, h := c.follow(u)
	if !l.addr.bus || h.held == l {
		return l, false
	}
	h.held = l
	return l, true
}

// unheld notes that a reference which was asked for on l was refused.
func (c *Client) unheld(u *Unit, l *link) { c.refused(u.path, l) }

func (c *Client) refused(path dbus.ObjectPath, l *link) {
	c.holds.Lock()
	defer c.holds.Unlock()
	if h := c.pump.paths()[path]; h != nil && h.held == l {
		h.held = nil
	}
}

// drop ends what u follows. The last one takes the matches and the reference
// along, before anybody can ask for them again.
func (c *Client) drop(u *Unit) {
	c.holds.Lock()
	defer c.holds.Unlock()
	h := c.pump.forget(u.path, u.follower)
	l := c.current()
	if h == nil || !l.addr.bus || l.wire.ended() != nil {
		return
	}
	if c.wide == l && c.pump.count() == 0 {
		narrow(l)
		c.wide = nil
	}
	if h.matched == l {
		l.tell(busName, busPath, busName+".RemoveMatch", matchUnit(u.path))
		l.tell(busName, busPath, busName+".RemoveMatch", matchJobs(u.name))
	}
	if h.held == l {
		l.tell(sdName, u.path, sdUnit+".Unref")
	}
}

// install makes l the link that is used, and follows and holds on it what is
// followed. All of it is sent before anybody can read: what happens after a
// read is then signalled again.
func (c *Client) install(ctx context.Context, l *link) bool {
	asked := map[dbus.ObjectPath]*pending{}
	c.holds.Lock()
	paths := c.pump.paths()
	if c.wide = nil; len(paths) > manyUnits {
		widen(l)
		c.wide = l
	}
	for path, h := range paths {
		if h.matched, h.held = nil, nil; c.wide != l {
			follow(l, path, h.name)
			h.matched = l
		}
		if l.addr.bus {
			h.held = l
			asked[path] = l.send(ctx, path, sdUnit+".Ref")
		}
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.link = l
	}
	c.mu.Unlock()
	c.holds.Unlock()
	if closed {
		_ = l.wire.Close()
		return false
	}
	_ = l.wire.flush()
	for path, p := range asked {
		// A unit that is gone cannot be held; the next read says so.
		if err := p.wait(); err != nil && !isNoReply(err) {
			c.refused(path, l)
		}
	}
	return true
}
