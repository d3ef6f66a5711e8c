package dbusclient

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/unitward/unitward/unit"
)

const (
	busName  = "org.freedesktop.DBus"
	busPath  = dbus.ObjectPath("/org/freedesktop/DBus")
	sdName   = "org.freedesktop.systemd1"
	sdPath   = dbus.ObjectPath("/org/freedesktop/systemd1")
	sdMgr    = sdName + ".Manager"
	sdUnit   = sdName + ".Unit"
	sdSvc    = sdName + ".Service"
	propsIfc = busName + ".Properties"

	// callTimeout is sd-bus's own default (sd_bus_set_method_call_timeout(3)).
	callTimeout = 25 * time.Second
	// dialTimeout bounds connect, authentication and the first answers.
	dialTimeout = 5 * time.Second
)

// link is one connection, for as long as it lives.
type link struct {
	conn *dbus.Conn
	addr address
	// owner is the manager's unique name; empty on a private socket.
	owner string
	// environ is the manager's environment, asked for with the first words
	// and awaited by a start; nil once it was taken.
	environ *pending
	// root is the manager's own cgroup; empty when it is not readable.
	root string
	// version is systemd's major version; 0 when it is not readable.
	version int
}

// pending is a call under way.
type pending struct {
	call   *dbus.Call
	cancel context.CancelFunc
	ctx    context.Context
}

// dial connects to one address and makes sure that a manager answers there.
func dial(ctx context.Context, a address, m unit.Manager, uid int, pump dbus.SignalHandler) (*link, error) {
	if err := a.owned(m, uid); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := dbus.Dial(a.dial, dbus.WithSignalHandler(pump))
	if err != nil {
		return nil, err
	}
	// godbus authenticates without a deadline; closing ends it.
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	l := &link{conn: conn, addr: a}
	err = conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(uid))})
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = l.greet(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return l, nil
}

// greet enters the bus and finds the manager on it. A bus takes messages in
// their order, so all of them go out before the first answer is awaited.
func (l *link) greet(ctx context.Context) error {
	var hello *pending
	if l.addr.bus {
		hello = l.sendBus(ctx, "Hello")
	}
	version := l.send(ctx, sdPath, propsIfc+".Get", sdMgr, "Version")
	cgroup := l.send(ctx, sdPath, propsIfc+".Get", sdMgr, "ControlGroup")
	l.environ = l.askEnviron(context.WithoutCancel(ctx))
	if l.addr.bus {
		watch := l.sendBus(ctx, "AddMatch", "type='signal',sender='"+busName+"',member='NameOwnerChanged',arg0='"+sdName+"'")
		owner := l.sendBus(ctx, "GetNameOwner", sdName)
		var name string
		if err := hello.wait(&name); err != nil {
			return err
		}
		if err := owner.wait(&l.owner); err != nil {
			return fmt.Errorf("no systemd manager is on this bus: %w", err)
		}
		if err := watch.wait(); err != nil {
			return err
		}
	}
	var v dbus.Variant
	if err := version.wait(&v); err != nil {
		return err
	}
	s, _ := v.Value().(string)
	l.version = parseVersion(s)
	if err := cgroup.wait(&v); err == nil {
		l.root, _ = v.Value().(string)
	}
	return nil
}

func (l *link) askEnviron(ctx context.Context) *pending {
	return l.send(ctx, sdPath, propsIfc+".Get", sdMgr, "Environment")
}

// parseVersion takes the leading number of "252.39-1~deb12u1", "v257" or
// "262~rc1"; 0 when there is none.
func parseVersion(s string) int {
	n, digits := 0, 0
	for i := 0; i < len(s) && digits < 6; i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			n, digits = 10*n+int(c-'0'), digits+1
		case digits == 0 && (c == 'v' || c == ' '):
		default:
			return n
		}
	}
	return n
}

// send sends a call to the manager without waiting. The manager is never
// activated: a bus without one says so.
func (l *link) send(ctx context.Context, path dbus.ObjectPath, method string, args ...any) *pending {
	return l.sendTo(ctx, sdName, path, method, args...)
}

func (l *link) sendBus(ctx context.Context, member string, args ...any) *pending {
	return l.sendTo(ctx, busName, busPath, busName+"."+member, args...)
}

func (l *link) sendTo(ctx context.Context, dest string, path dbus.ObjectPath, method string, args ...any) *pending {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	call := l.conn.Object(dest, path).GoWithContext(ctx, method, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), args...)
	return &pending{call: call, cancel: cancel, ctx: ctx}
}

// tell sends a call to which no reply is wanted.
func (l *link) tell(dest string, path dbus.ObjectPath, method string, args ...any) {
	l.conn.Object(dest, path).Go(method, dbus.FlagNoAutoStart|dbus.FlagNoReplyExpected, nil, args...)
}

// wait awaits the reply and stores its values. A missing reply is a
// *noReplyError.
func (p *pending) wait(into ...any) error {
	defer p.cancel()
	select {
	case <-p.call.Done:
	case <-p.ctx.Done():
		return &noReplyError{p.ctx.Err()}
	}
	if p.call.Err != nil {
		return classify(p.ctx, p.call.Err)
	}
	return p.call.Store(into...)
}
