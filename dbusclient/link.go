package dbusclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
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
	wire *wire
	addr address
	// owner is the manager's unique name; empty on a private socket.
	owner string
	// environ is the manager's environment, asked for with the first words, at
	// environAt, and awaited by a start; nil once it was taken.
	environ   *pending
	environAt time.Time
	// root is the manager's own cgroup; empty when it is not readable.
	root string
	// version is systemd's major version; 0 when it is not readable.
	version int
	// machine and began are those of unit.Far; empty and 0 for a manager of this
	// machine.
	machine string
	began   uint64
}

// pending is a call under way.
type pending struct {
	wire   *wire
	serial uint32
	reply  chan *dbus.Message
	ctx    context.Context
	cancel context.CancelFunc
	// err is why the call was never sent.
	err error
	// sender is who replied, on a bus.
	sender string
}

// dial connects to one address and makes sure that a manager answers there.
func dial(ctx context.Context, a address, m unit.Manager, uid int, pump *pump) (*link, error) {
	if err := a.owned(m, uid); err != nil {
		return nil, err
	}
	within := dialTimeout
	if a.bridge != nil {
		within = bridgeTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	deliver := pump.DeliverSignal
	if !a.bus {
		deliver = pump.deliverPrivate
	}
	w, err := a.wire(ctx, uid, deliver)
	if err != nil {
		return nil, err
	}
	l := &link{wire: w, addr: a}
	if err := l.greet(ctx); err != nil {
		_ = w.Close() // there is a better error
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = &noReplyError{ctx.Err()}
		}
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
	var version, cgroup, machine, began *pending
	ask := func() {
		if l.addr.bridge != nil {
			machine = l.send(ctx, sdPath, busName+".Peer.GetMachineId")
			began = l.send(ctx, sdPath, propsIfc+".Get", sdMgr, "UserspaceTimestamp")
		}
		version = l.send(ctx, sdPath, propsIfc+".Get", sdMgr, "Version")
		cgroup = l.send(ctx, sdPath, propsIfc+".Get", sdMgr, "ControlGroup")
		if l.addr.bridge == nil {
			l.environ, l.environAt = l.askEnviron(context.WithoutCancel(ctx)), time.Now()
		}
	}
	ask()
	if l.addr.bus {
		l.match("type='signal',sender='" + busName + "',member='NameOwnerChanged',arg0='" + sdName + "'")
	}
	if err := l.wire.start(ctx); err != nil {
		return err
	}
	if hello != nil {
		if err := hello.wait(); err != nil {
			return err
		}
	}
	var v dbus.Variant
	err := version.wait(&v)
	const tries = 100
	for i := 0; i < tries && isAway(err) && ctx.Err() == nil; i++ {
		pause := l.addr.patience() / tries
		if pause == 0 {
			break
		}
		time.Sleep(pause)
		for _, p := range []*pending{cgroup, machine, began, l.environ} {
			p.drop()
		}
		ask()
		err = version.wait(&v)
	}
	switch {
	case isAway(err):
		return fmt.Errorf("no systemd manager is on this bus: %w", err)
	case err != nil:
		return err
	case l.addr.bus:
		l.owner = version.sender // the bus vouches for it
	}
	s, _ := v.Value().(string)
	l.version = parseVersion(s)
	if err := cgroup.wait(&v); err == nil {
		l.root, _ = v.Value().(string)
	}
	if machine == nil {
		return nil
	}
	if err := machine.wait(&l.machine); err != nil {
		return fmt.Errorf("cannot learn which machine this is: %w", err)
	}
	if err := began.wait(&v); err != nil {
		return fmt.Errorf("cannot learn when the manager was started: %w", err)
	}
	l.began, _ = v.Value().(uint64)
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
	p := &pending{wire: l.wire, reply: make(chan *dbus.Message, 1)}
	p.ctx, p.cancel = context.WithTimeout(ctx, callTimeout)
	p.serial, p.err = l.wire.call(p.ctx, dest, path, method, p.reply, args...)
	return p
}

// match asks a bus for signals. Should it refuse, those who wait for them look
// again by themselves, a little later.
func (l *link) match(rule string) {
	_, _ = l.wire.call(context.Background(), busName, busPath, busName+".AddMatch", nil, rule)
}

// tell sends a call to which no reply is wanted.
func (l *link) tell(dest string, path dbus.ObjectPath, method string, args ...any) {
	_, _ = l.wire.call(context.Background(), dest, path, method, nil, args...) // nobody would read the error
	_ = l.wire.flush()
}

// wait awaits the reply and stores its values. A missing reply is a
// *noReplyError.
func (p *pending) wait(into ...any) error {
	defer p.cancel()
	if p.err == nil {
		p.err = p.wire.flush()
	}
	if p.err != nil {
		return classify(p.ctx, p.err)
	}
	select {
	case m := <-p.reply:
		return p.store(m, into)
	case <-p.ctx.Done():
	case <-p.wire.done:
	}
	select {
	case m := <-p.reply: // it came before the end, maybe long before it was waited for
		return p.store(m, into)
	default:
	}
	if err := p.ctx.Err(); err != nil {
		p.wire.forget(p.serial)
		return &noReplyError{err}
	}
	return &noReplyError{p.wire.ended()}
}

// drop gives up a call that nobody will wait for; nil is none.
func (p *pending) drop() {
	if p != nil {
		p.cancel()
		p.wire.forget(p.serial)
	}
}

func (p *pending) store(m *dbus.Message, into []any) error {
	p.sender = m.Sender
	if m.Kind == dbus.Fault {
		return classify(p.ctx, dbus.Error{Name: m.ErrorName, Body: m.Body})
	}
	if len(into) == 0 {
		return nil
	}
	return dbus.Store(m.Body, into...)
}
