package dbusclient

import (
	"context"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/unit"
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
	if !c.mayHold(h, l) {
		return l, nil
	}
	h.held = l
	c.held++
	return l, l.ref(ctx, u.name)
}

// ref asks for a reference to a unit by its name, which is refused for one that is
// not there. By its path the manager would make one that stands for it and that the
// reference keeps: of a scope, and where a directory of units has changed since it
// was last read, as by the upgrade of a package, it then tells of that unit for ever,
// and of nothing else any more (seen with systemd 252, 257 and 262; the systemd
// project's issue 18527).
func (l *link) ref(ctx context.Context, name string) *pending {
	return l.send(ctx, sdPath, sdMgr+".RefUnit", name)
}

// claim follows a unit that is about to be started on a link. ref says whether
// the start is to make a reference.
func (c *Client) claim(u *Unit) (l *link, ref bool) {
	c.holds.Lock()
	defer c.holds.Unlock()
	l, h := c.follow(u)
	if !c.mayHold(h, l) {
		return l, false
	}
	h.held = l
	c.held++
	return l, true
}

// For each unit that is held, and for each job that was asked for, the manager has a
// rule on the bus, by which it learns that who did so is gone. The system's may have
// 512 (dbus-daemon(1), max_match_rules_per_connection); with one more it gives up its
// connection, and everybody on the machine loses the manager, and what was held,
// until it has come back (seen with systemd 252). A bus of a session allows for
// 50,000.
const (
	// manyHeld is how many units of the system's manager a connection holds loaded
	// before References says that it can hold no more, and mostHeld how many it
	// ever does.
	manyHeld = 128
	mostHeld = 192
	// mostStops is how many of its jobs to stop a unit are under way.
	mostStops = 64
)

// MayStop reports whether the manager can be asked for a job that stops the unit.
// Until Close it is then taken to be under way.
func (u *Unit) MayStop() bool {
	c := u.c
	c.holds.Lock()
	defer c.holds.Unlock()
	if !u.stops && (c.manager != unit.ManagerSystem || c.stops < mostStops) {
		u.stops = true
		c.stops++
	}
	return u.stops
}

// mayHold is true for a unit that is not held yet, while there may be more. It is
// for who holds c.holds.
func (c *Client) mayHold(h *followed, l *link) bool {
	return l.addr.bus && h.held != l && (c.manager != unit.ManagerSystem || c.held < mostHeld)
}

// unheld notes that a reference which was asked for on l was refused.
func (c *Client) unheld(u *Unit, l *link) { c.refused(u.path, l) }

func (c *Client) refused(path dbus.ObjectPath, l *link) {
	c.holds.Lock()
	defer c.holds.Unlock()
	if h := c.pump.paths()[path]; h != nil && h.held == l {
		h.held = nil
		c.held--
	}
}

// drop ends what u follows. The last one takes the matches and the reference
// along, before anybody can ask for them again.
func (c *Client) drop(u *Unit) {
	c.holds.Lock()
	defer c.holds.Unlock()
	if u.stops {
		u.stops = false
		c.stops--
	}
	h := c.pump.forget(u.path, u.follower)
	l := c.current()
	if h == nil {
		return
	}
	if h.held == l {
		c.held--
	}
	if !l.addr.bus || l.wire.ended() != nil {
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
	c.held = 0
	if c.wide = nil; len(paths) > manyUnits {
		widen(l)
		c.wide = l
	}
	for path, h := range paths {
		if h.matched, h.held = nil, nil; c.wide != l {
			follow(l, path, h.name)
			h.matched = l
		}
		if c.mayHold(h, l) {
			h.held = l
			c.held++
			asked[path] = l.ref(ctx, h.name)
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
