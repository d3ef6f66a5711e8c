package dbusclient

import (
	"context"
	"encoding/hex"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// What a manager signals of an end is kept, with whose end it is.
func TestSignalledEnd(t *testing.T) {
	id := []byte("0123456789abcdef")
	service := func(code, status int32) *dbus.Message {
		return changedSignal(owner, "a.service", variants("ExecMainCode", code, "ExecMainStatus", status, "Result", "exit-code", "ExecMainExitTimestamp", uint64(7)))
	}
	ofUnit := func(sender string) *dbus.Message {
		return signal(sender, unitPath("a.service"), propsIfc+".PropertiesChanged", sdUnit, variants("SubState", "failed", "InvocationID", id), []string{})
	}
	for _, c := range []struct {
		about   string
		private bool
		signals []*dbus.Message
		want    *End
	}{
		{"the end", false, []*dbus.Message{service(1, 9), ofUnit(owner)}, &End{InvocationID: hex.EncodeToString(id), Code: 1, Status: 9, Result: "exit-code", SubState: "failed", At: wall(7)}},
		{"whose it is was not said", false, []*dbus.Message{service(1, 9)}, nil},
		{"it runs", false, []*dbus.Message{service(0, 0), ofUnit(owner)}, nil},
		{"it runs again", false, []*dbus.Message{service(1, 9), service(0, 0), ofUnit(owner)}, nil},
		{"said by a stranger", false, []*dbus.Message{service(1, 9), ofUnit(stranger)}, nil},
		{"said without a sender, on a bus", false, []*dbus.Message{service(1, 9), ofUnit("")}, nil},
		{"said on a private socket", true, []*dbus.Message{service(2, 15), ofUnit("")}, &End{InvocationID: hex.EncodeToString(id), Code: 2, Status: 15, Result: "exit-code", SubState: "failed", At: wall(7)}},
	} {
		p, f := newPump(), newFollower("a.service")
		p.setOwner(owner)
		p.follow(unitPath("a.service"), f)
		for _, s := range c.signals {
			p.deliver(c.private, s)
		}
		if got := f.ended(); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.about, got, c.want)
		}
	}
}

// A unit that has begun to end is nearly at its end, but may stay where it is.
func TestAwaitEnd(t *testing.T) {
	id := []byte("0123456789abcdef")
	tell := func(p *pump, active, sub string) {
		for _, s := range []*dbus.Message{
			changedSignal(owner, "a.service", variants("ExecMainCode", int32(1), "ExecMainStatus", int32(3))),
			signal(owner, unitPath("a.service"), propsIfc+".PropertiesChanged", sdUnit, variants("ActiveState", active, "SubState", sub, "InvocationID", id), []string{}),
		} {
			p.DeliverSignal(s)
		}
	}
	for _, c := range []struct {
		active, sub string
		final       bool
	}{
		{"inactive", "dead", true},
		{"failed", "failed", true},
		{"active", "exited", false},
		{"deactivating", "final-sigterm", false},
		{"activating", "auto-restart", false},
	} {
		p, f := newPump(), newFollower("a.service")
		p.setOwner(owner)
		p.follow(unitPath("a.service"), f)
		tell(p, "deactivating", "stop-sigterm")
		go func() {
			for len(f.wake) > 0 && t.Context().Err() == nil { // until the first was taken
				runtime.Gosched()
			}
			tell(p, c.active, c.sub)
		}()
		most := time.Millisecond
		if c.final {
			most = time.Minute
		}
		end := f.awaitEnd(t.Context(), most)
		if got := end != nil; got != c.final || got && (end.ActiveState != c.active || end.Status != 3) {
			t.Errorf("%s (%s): %+v", c.active, c.sub, end)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if end := newFollower("a.service").awaitEnd(ctx, time.Minute); end != nil {
		t.Errorf("given up: %+v", end)
	}
}
