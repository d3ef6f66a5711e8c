package dbusclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/unit"
)

func said(name string, body ...any) error { return dbus.Error{Name: name, Body: body} }

func TestClassify(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	for _, c := range []struct {
		name    string
		ctx     context.Context
		err     error
		noReply bool
	}{
		{"the peer's no", context.Background(), said(errAccessDenied), false},
		{"the peer's no, late", late, said(errAccessDenied), false},
		{"the bus's no reply", context.Background(), said(errNoReply), true},
		{"the bus's timeout", context.Background(), said(errTimeout), true},
		{"the bus's disconnect", context.Background(), said(errDisconnected), true},
		{"our deadline", late, context.DeadlineExceeded, true},
		{"our end", done, context.Canceled, true},
		{"lost", context.Background(), io.EOF, true},
		{"closed", context.Background(), errClosed, true},
		{"never sent", context.Background(), &dbus.EncodeError{Why: "x"}, false},
		{"never sent, wrapped", context.Background(), fmt.Errorf("x: %w", &dbus.EncodeError{Why: "y"}), false},
	} {
		if got := classify(c.ctx, c.err); isNoReply(got) != c.noReply || got.Error() == "" {
			t.Errorf("%s: classify = %v, no reply %v; want %v", c.name, got, isNoReply(got), c.noReply)
		}
	}
	if got := classify(late, context.DeadlineExceeded).Error(); got != "no reply came in time" {
		t.Errorf("a deadline reads %q", got)
	}
}

func client() *Client {
	return &Client{manager: unit.ManagerSystem, link: &link{version: 252, addr: busAt("/run/dbus/system_bus_socket")}}
}

func TestTyped(t *testing.T) {
	c := client()
	lost := &noReplyError{io.EOF}
	for _, row := range []struct {
		err  error
		want error
	}{
		{lost, &unit.UnknownOutcomeError{Op: "start f", Err: lost}},
		{said(errAccessDenied, "Permission denied."), &unit.AccessError{Op: "start f", Manager: unit.ManagerSystem, Action: "act", Detail: "Permission denied"}},
		{said(errInteractive, "Interactive"), &unit.AccessError{Op: "start f", Manager: unit.ManagerSystem, Action: "act", Detail: "Interactive"}},
		{said(errUnitExists, "there"), &unit.UnitExistsError{Unit: "f", Manager: unit.ManagerSystem}},
		{said(errInvalidArgs, "bad"), &unit.PropertyError{Unit: "f", Version: 252, Detail: "bad"}},
		{said(errReadOnly, "Cannot set"), &unit.PropertyError{Unit: "f", Version: 252, Detail: "Cannot set"}},
		{said(errNotSupported, "no"), &unit.PropertyError{Unit: "f", Version: 252, Detail: "no"}},
		{said(errBadUnit, "no"), &unit.PropertyError{Unit: "f", Version: 252, Detail: "no"}},
		{said(errServiceGone, "gone"), &unit.NoManagerError{Manager: unit.ManagerSystem, Tried: []string{"/run/dbus/system_bus_socket: gone"}}},
		{said(errNameNoOwner, "gone"), &unit.NoManagerError{Manager: unit.ManagerSystem, Tried: []string{"/run/dbus/system_bus_socket: gone"}}},
	} {
		got := c.typed("start f", "f", "act", row.err)
		if !reflect.DeepEqual(got, row.want) {
			t.Errorf("typed(%v) = %#v, want %#v", row.err, got, row.want)
		}
		if wrapped := c.typed("start f", "f", "act", fmt.Errorf("x: %w", row.err)); reflect.TypeOf(wrapped) != reflect.TypeOf(row.want) {
			t.Errorf("typed of it wrapped = %#v", wrapped)
		}
	}
	if err := c.typed("start f", "f", "", nil); err != nil {
		t.Errorf("typed(nil) = %v", err)
	}
	other := c.typed("start f", "f", "", said("org.example.Odd", "so it is."))
	if other == nil || other.Error() != "cannot start f: so it is" {
		t.Errorf("an unknown name: %v", other)
	}
	// A sentence that sounds like another error is not that error.
	var access *unit.AccessError
	if err := c.typed("start f", "f", "", said("org.example.Odd", "Access denied, UnitExists")); errors.As(err, &access) {
		t.Errorf("a sentence was believed: %#v", err)
	}
}

func TestSentence(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{said("a.b", "Unit x not found."), "Unit x not found"},
		{said("a.b"), "a.b"},
		{said("a.b", int32(7)), "a.b"},
		{io.EOF, "EOF"},
	} {
		if got := sentence(c.err); got != c.want && !strings.Contains(got, c.want) {
			t.Errorf("sentence(%#v) = %q, want %q", c.err, got, c.want)
		}
	}
}
