package dbusclient

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// Unit is a unit that the client follows. Close it.
type Unit struct {
	c        *Client
	name     string
	path     dbus.ObjectPath
	follower *follower
	// job is the start job; empty for a unit that was opened.
	job dbus.ObjectPath
	// stops is true once it is among the client's stops. It is for who holds
	// Client.holds.
	stops bool
}

func (c *Client) unit(name string) *Unit {
	return &Unit{c: c, name: name, path: unitPath(name), follower: newFollower(name)}
}

// Open follows an existing unit and holds it loaded, where the connection can.
// A unit that the manager does not know is no error: Read says so. A unit can
// be opened again: the connection holds it once, until the last Close.
func (c *Client) Open(ctx context.Context, name string) (*Unit, error) {
	u := c.unit(name)
	l, asked := c.hold(ctx, u)
	if asked == nil {
		return u, nil
	}
	err := asked.wait()
	if err != nil && !isNoReply(err) {
		c.unheld(u, l)
	}
	if isNoReply(err) || isAway(err) {
		u.Close()
		return nil, c.typed("open "+name, name, "", err)
	}
	return u, nil
}

// Close stops to follow the unit and lets go of it. Nobody waits for the
// manager's answers. It can be called again.
func (u *Unit) Close() { u.c.drop(u) }

// Loaded reports whether the manager has a unit of any type loaded.
func (c *Client) Loaded(ctx context.Context, name string) (bool, error) {
	var state string
	err := c.unit(name).ask(ctx, []question{{sdUnit, "LoadState", &state, false}})
	return state == "loaded", err
}

// Leaving reports whether a unit is not loaded, or has ended and is held by the scope
// of a guard alone, with which it is unloaded.
func (c *Client) Leaving(ctx context.Context, name string) (bool, error) {
	var load, active string
	var bound []string
	// LoadState last: the others can be the defaults of a unit that was unloaded meanwhile.
	err := c.unit(name).ask(ctx, []question{
		{sdUnit, "BindsTo", &bound, false}, {sdUnit, "ActiveState", &active, false}, {sdUnit, "LoadState", &load, false},
	})
	ended := active == "inactive" || active == "failed"
	return load == "not-found" || ended && slices.ContainsFunc(bound, isGuardScope), err
}

// Version is the major version of the unit's manager; 0 when it could not be
// read.
func (u *Unit) Version() int { return u.c.Version() }

// Changed receives after something about the unit may have changed.
func (u *Unit) Changed() <-chan struct{} { return u.follower.wake }

// Trail lists the unit's SubStates since it is followed, oldest first, as far
// as signals told of them. It dates steps and decides nothing.
func (u *Unit) Trail() []string { return u.follower.states() }

// Told reports whether a signal told of the unit since it is followed.
func (u *Unit) Told() bool { return u.follower.state() != "" }

// GoesOn reports whether the last signal told of a unit that has not ended.
// Changed then receives at its end. Like every signal it proves nothing.
func (u *Unit) GoesOn() bool { return underway(u.follower.state()) }

// Ended reports whether the last signal told of a unit that has ended, as a
// hint that there is something to read. Like every signal it proves nothing.
func (u *Unit) Ended() bool {
	state := u.follower.state()
	return state != "" && !underway(state)
}

// Identity is what a unit that was just started is recognised by.
type Identity struct {
	// InvocationID is 32 hexadecimal digits; empty when the unit is gone.
	InvocationID string
	// ControlGroup is the cgroup below the cgroup root; empty when the unit
	// has ended already.
	ControlGroup string
	// MainPID is the main process, running or not.
	MainPID int
	// StartedAt is when it started.
	StartedAt time.Time
}

// Identify tells who the unit turned out to be, and nothing that can wait: as
// the manager's signals of the start said it, or by asking. ControlGroup is
// empty where only signals were needed, which do not carry it.
func (u *Unit) Identify(ctx context.Context) (Identity, error) {
	id := u.follower.identity()
	if id.InvocationID != "" && id.MainPID != 0 && !id.StartedAt.IsZero() {
		return id, nil
	}
	var invocation []byte
	var pid uint32
	var start uint64
	err := u.ask(ctx, []question{
		{sdSvc, "ControlGroup", &id.ControlGroup, false},
		{sdSvc, "ExecMainPID", &pid, false},
		{sdSvc, "ExecMainStartTimestamp", &start, false},
		{sdUnit, "InvocationID", &invocation, false},
	})
	id.InvocationID, id.MainPID, id.StartedAt = hex.EncodeToString(invocation), int(pid), wall(start)
	return id, err
}

// Cgroup is where the unit's cgroup is, or was before it ended, below the cgroup
// root; empty when the unit is not loaded. The error is that of the reading.
func (u *Unit) Cgroup(ctx context.Context) (string, error) {
	var at, slice string
	err := u.ask(ctx, []question{{sdSvc, "ControlGroup", &at, false}, {sdSvc, "Slice", &slice, false}})
	if at == "" && slice != "" {
		at = u.c.UnitCgroup(slice, u.name)
	}
	return at, err
}

// question is a property to read, and where its value goes.
type question struct {
	iface, name string
	into        any
	// optional is a property that this systemd may not have.
	optional bool
}

// ask sends all questions before it awaits the first answer. It returns the
// first error.
func (u *Unit) ask(ctx context.Context, questions []question) error {
	l := u.c.current()
	sent := make([]*pending, len(questions))
	for i, q := range questions {
		sent[i] = l.send(ctx, u.path, propsIfc+".Get", q.iface, q.name)
	}
	var first error
	for i, q := range questions {
		var v dbus.Variant
		err := sent[i].wait(&v)
		if err == nil {
			err = dbus.Store([]any{v.Value()}, q.into)
		}
		if err != nil && !q.optional && first == nil {
			first = &askError{fmt.Sprintf("cannot read %s of %s: %s", q.name, u.name, sentence(err)), err}
		}
	}
	return first
}

// askError says which property could not be read, and why.
type askError struct {
	text string
	err  error
}

func (e *askError) Error() string { return e.text }

func (e *askError) Unwrap() error { return e.err }

// Absent reports whether an error says that no manager is there, rather than
// that none has answered yet.
func Absent(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return false
	}
	return isAway(err) || isNoReply(err)
}

// InvocationID asks for the id of the unit's present start; empty when the
// manager knows of none.
func (u *Unit) InvocationID(ctx context.Context) (string, error) {
	var id []byte
	err := u.ask(ctx, []question{{sdUnit, "InvocationID", &id, false}})
	return hex.EncodeToString(id), err
}

// Carries reports whether the unit's command line, environment file or slice
// that holds it names the nonce: whether it is the one that a lost start asked for.
func (u *Unit) Carries(ctx context.Context, nonce string) (bool, error) {
	l := u.c.current()
	env := l.send(ctx, u.path, propsIfc+".Get", sdSvc, "EnvironmentFiles")
	cmd := l.send(ctx, u.path, propsIfc+".Get", sdSvc, "ExecStart")
	hold := l.send(ctx, u.path, propsIfc+".Get", sdUnit, "Wants")
	var v, w, x dbus.Variant
	if err := env.wait(&v); err != nil {
		return false, u.c.typed("read "+u.name, u.name, "", err)
	}
	if err := cmd.wait(&w); err != nil {
		return false, u.c.typed("read "+u.name, u.name, "", err)
	}
	if err := hold.wait(&x); err != nil {
		return false, u.c.typed("read "+u.name, u.name, "", err)
	}
	return mentions(v, nonce) || mentions(w, nonce) || mentions(x, nonce), nil
}

// mentions reports whether a string in a value has the text in it.
func mentions(value any, text string) bool {
	in := func(v any) bool { return mentions(v, text) }
	switch v := value.(type) {
	case string:
		return strings.Contains(v, text)
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return strings.Contains(s, text) })
	case []any:
		return slices.ContainsFunc(v, in)
	case dbus.Variant:
		return in(v.Value())
	}
	return false
}
