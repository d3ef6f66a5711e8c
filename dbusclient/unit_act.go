package dbusclient

import (
	"context"
	"strings"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/unit"
)

// Kill sends a signal to processes of the unit. The error is a
// *unit.EndedError when there is none.
func (u *Unit) Kill(ctx context.Context, who unit.Who, signal int) error {
	op := "signal " + u.name
	err := u.c.current().send(ctx, sdPath, sdMgr+".KillUnit", u.name, string(who), int32(signal)).wait()
	if isNamed(err, errNoSuchProcess, errNoSuchUnit, errNotLoaded) {
		return &unit.EndedError{Op: "signal", Name: u.name}
	}
	return u.c.typed(op, u.name, actionManageUnits, err)
}

// Stop asks the manager to stop the unit and does not wait. A unit that is not
// loaded is stopped.
func (u *Unit) Stop(ctx context.Context) error {
	var job dbus.ObjectPath
	err := u.c.current().send(ctx, sdPath, sdMgr+".StopUnit", u.name, "replace").wait(&job)
	if isNamed(err, errNoSuchUnit, errNotLoaded) {
		return nil
	}
	return u.c.typed("stop "+u.name, u.name, actionManageUnits, err)
}

// Freeze stops every process of the unit until Thaw, in a way that they
// cannot notice (systemd 246). The error is a *unit.EndedError when there is
// nothing to freeze.
func (u *Unit) Freeze(ctx context.Context) error { return u.freezer(ctx, "Freeze") }

// Thaw undoes Freeze.
func (u *Unit) Thaw(ctx context.Context) error { return u.freezer(ctx, "Thaw") }

func (u *Unit) freezer(ctx context.Context, what string) error {
	err := u.c.current().send(ctx, sdPath, sdMgr+"."+what+"Unit", u.name).wait()
	if isNamed(err, errNoSuchUnit, errNotLoaded, errUnitInactive) {
		return &unit.EndedError{Op: strings.ToLower(what), Name: u.name}
	}
	if isNamed(err, errNotSupported) {
		return &unit.FreezeError{Op: strings.ToLower(what), Unit: u.name, Detail: sentence(err)}
	}
	return u.c.typed(strings.ToLower(what)+" "+u.name, u.name, actionManageUnits, err)
}
