package dbusclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/unit"
)

// noReplyError says that a call was sent, or may have been, and that no reply
// came.
type noReplyError struct{ err error }

func (e *noReplyError) Error() string {
	if errors.Is(e.err, context.DeadlineExceeded) {
		return "no reply came in time"
	}
	return "no reply came: " + e.err.Error()
}

func (e *noReplyError) Unwrap() error { return e.err }

// Names of D-Bus errors that mean something to us. Errors are told apart by
// these names alone, never by their sentences.
const (
	errNoReply       = "org.freedesktop.DBus.Error.NoReply"
	errTimeout       = "org.freedesktop.DBus.Error.Timeout"
	errDisconnected  = "org.freedesktop.DBus.Error.Disconnected"
	errAccessDenied  = "org.freedesktop.DBus.Error.AccessDenied"
	errInteractive   = "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired"
	errInvalidArgs   = "org.freedesktop.DBus.Error.InvalidArgs"
	errReadOnly      = "org.freedesktop.DBus.Error.PropertyReadOnly"
	errNotSupported  = "org.freedesktop.DBus.Error.NotSupported"
	errUnknownObject = "org.freedesktop.DBus.Error.UnknownObject"
	errUnknownIfc    = "org.freedesktop.DBus.Error.UnknownInterface"
	errServiceGone   = "org.freedesktop.DBus.Error.ServiceUnknown"
	errNameNoOwner   = "org.freedesktop.DBus.Error.NameHasNoOwner"
	errUnitExists    = sdName + ".UnitExists"
	errNoSuchUnit    = sdName + ".NoSuchUnit"
	errNotLoaded     = sdName + ".NotLoaded"
	errUnitInactive  = sdName + ".UnitInactive"
	errBadUnit       = sdName + ".BadUnitSetting"
	errNoSuchProcess = sdName + ".NoSuchProcess"
	errUnixNoProcess = "org.freedesktop.DBus.Error.UnixProcessIdUnknown"
)

// classify separates "the other side said no" from "nobody answered".
func classify(ctx context.Context, err error) error {
	var de dbus.Error
	if errors.As(err, &de) {
		switch de.Name {
		case errNoReply, errTimeout, errDisconnected:
			return &noReplyError{err}
		}
		return err
	}
	if ctx.Err() != nil {
		return &noReplyError{ctx.Err()}
	}
	// What could not even be encoded never left this process.
	var never *dbus.EncodeError
	if errors.As(err, &never) {
		return err
	}
	return &noReplyError{err}
}

// isNamed reports whether err is a D-Bus error with one of the names.
func isNamed(err error, names ...string) bool {
	var de dbus.Error
	if !errors.As(err, &de) {
		return false
	}
	for _, n := range names {
		if de.Name == n {
			return true
		}
	}
	return false
}

// isAway reports whether a bus says that no manager is on it.
func isAway(err error) bool { return isNamed(err, errServiceGone, errNameNoOwner) }

func isNoReply(err error) bool {
	var nr *noReplyError
	return errors.As(err, &nr)
}

// sentence is the text of a D-Bus error, for people.
func sentence(err error) string {
	var de dbus.Error
	if errors.As(err, &de) && len(de.Body) > 0 {
		if s, ok := de.Body[0].(string); ok {
			return strings.TrimSuffix(s, ".")
		}
	}
	return err.Error()
}

// typed turns the error of an operation on a unit into one that callers can
// tell apart; op says what was asked, such as "start foo.service".
func (c *Client) typed(op, name, action string, err error) error {
	switch {
	case err == nil:
		return nil
	case isNoReply(err):
		return &unit.UnknownOutcomeError{Op: op, Err: err}
	case isNamed(err, errAccessDenied, errInteractive):
		return &unit.AccessError{Op: op, Manager: c.manager, Remote: c.env.Remote, Action: action, Detail: sentence(err)}
	case isNamed(err, errUnitExists):
		return &unit.UnitExistsError{Unit: name, Manager: c.manager, Remote: c.env.Remote}
	case isNamed(err, errInvalidArgs, errReadOnly, errNotSupported, errBadUnit):
		return &unit.PropertyError{Unit: name, Version: c.Version(), Detail: sentence(err)}
	case isAway(err):
		return &unit.NoManagerError{Manager: c.manager, Remote: c.env.Remote, Tried: []string{c.Address() + ": " + sentence(err)}}
	}
	return fmt.Errorf("cannot %s: %s", op, sentence(err))
}

// polkit actions (org.freedesktop.systemd1(5), "Security").
const actionManageUnits = "org.freedesktop.systemd1.manage-units"
