package dbusclient

import (
	"context"
	"slices"
	"time"
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
	if !buses && !c.bus {
		return all
	}
	private := slices.DeleteFunc(slices.Clone(all), func(a address) bool { return a.bus })
	all = slices.DeleteFunc(all, func(a address) bool { return !a.bus })
	if buses {
		return all
	}
	return append(private, all...)
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

// Pauses between attempts to reconnect.
const (
	firstRetry = 20 * time.Millisecond
	maxRetry   = time.Second
)
