package dbusclient

import (
	"cmp"
	"context"
	"encoding/hex"
	"os"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/verify"
)

// Scope is a transient scope as the manager is to make it, around a process
// that exists.
type Scope struct {
	// Unit is the full unit name.
	Unit        string
	Description string
	Slice       string
	// PID is the process. PIDFD is open on it (pidfd_open(2)) and says that
	// it is still the one that is meant, where the manager takes that
	// (systemd 255); nil leaves it at the number.
	PID   int
	PIDFD *os.File
	// Grace is the time between TERM and KILL; Timeout ends the scope, 0 is
	// never.
	Grace, Timeout time.Duration
	// KillSignal is the first signal of a stop; 0 is SIGTERM.
	KillSignal int
	// JobMode is the mode of the start job; empty is fail.
	JobMode string
	// Properties are the user's own. They come last.
	Properties []property.Property
}

const sdScope = sdName + ".Scope"

// versionPIDFDs is the first systemd that takes pidfds for a scope (NEWS 255).
const versionPIDFDs = 255

// StartScope asks the manager for the scope. The errors are those of
// StartService.
func (c *Client) StartScope(ctx context.Context, s Scope) (*Unit, error) {
	u := c.unit(s.Unit)
	l, ref := c.claim(u)
	var p []property.Property
	add := func(name string, value any) {
		p = append(p, property.Property{Name: name, Value: dbus.MakeVariant(value)})
	}
	add("Description", s.Description)
	add("Slice", s.Slice)
	if s.PIDFD != nil && l.version >= versionPIDFDs {
		add("PIDFDs", []dbus.UnixFD{dbus.UnixFD(s.PIDFD.Fd())})
	} else {
		add("PIDs", []uint32{uint32(s.PID)})
	}
	add("TimeoutStopUSec", usec(s.Grace))
	add("CollectMode", "inactive-or-failed")
	if ref {
		add("AddRef", true)
	}
	if s.Timeout > 0 {
		add("RuntimeMaxUSec", usec(s.Timeout))
	}
	if s.KillSignal != 0 {
		add("KillSignal", int32(s.KillSignal))
	}
	p = append(p, s.Properties...)
	return c.start(ctx, l, u, request{ref: ref, mode: s.JobMode, properties: p, auxes: []aux{}})
}

// ReadScope reads what the manager knows of a scope. An error is in
// Reading.Err.
func (u *Unit) ReadScope(ctx context.Context) Reading {
	r := Reading{Unit: verify.Unit{ManagerVersion: u.c.Version(), TasksCurrent: verify.TasksUnset}}
	var invocation []byte
	err := u.ask(ctx, []question{
		{sdUnit, "LoadState", &r.LoadState, false},
		{sdUnit, "ActiveState", &r.ActiveState, false},
		{sdUnit, "SubState", &r.SubState, false},
		{sdScope, "Result", &r.Result, false},
		{sdScope, "ControlGroup", &r.ControlGroup, false},
		{sdUnit, "InvocationID", &invocation, false},
	})
	if err != nil {
		r.Err, r.Absent = err.Error(), Absent(err)
	}
	r.Unit.Read = err == nil //nolint:staticcheck // Read is a method's name too
	r.InvocationID = hex.EncodeToString(invocation)
	return r
}

// ScopeStarted is Started for a scope.
func (u *Unit) ScopeStarted(ctx context.Context) (string, error) {
	return u.started(ctx, func(ctx context.Context) (r Reading, begun bool) {
		r = u.ReadScope(ctx)
		return r, r.InvocationID != ""
	})
}

// request is one for a transient unit.
type request struct {
	// ref says that it makes a reference.
	ref           bool
	mode          string
	properties    []property.Property
	auxes         []aux
	sending, sent func()
}

// start sends a request whose unit is followed already, and awaits its reply.
func (c *Client) start(ctx context.Context, l *link, u *Unit, r request) (*Unit, error) {
	if r.sending != nil {
		_ = l.wire.flush() // the request is then all that is sent; the error is its own too
		r.sending()
	}
	p := l.sendTo(ctx, sdName, sdPath, sdMgr+".StartTransientUnit", u.name, cmp.Or(r.mode, "fail"), r.properties, r.auxes)
	if p.err == nil {
		p.err = l.wire.flush()
	}
	if r.sent != nil {
		r.sent()
	}
	err := p.wait(&u.job)
	if err != nil && !isNoReply(err) {
		if r.ref {
			c.unheld(u, l)
		}
		u.Close()
		return nil, c.typed("start "+u.name, u.name, actionManageUnits, err)
	}
	return u, c.typed("start "+u.name, u.name, actionManageUnits, err)
}
