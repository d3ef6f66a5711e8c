package dbusclient

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
)

const (
	owner    = ":1.7"
	stranger = ":1.66"
)

func signal(sender string, path dbus.ObjectPath, name string, body ...any) *dbus.Message {
	i := strings.LastIndexByte(name, '.')
	return &dbus.Message{Kind: dbus.Signal, Sender: sender, Path: path, Interface: name[:i], Member: name[i+1:], Body: body}
}

func variants(kv ...any) map[string]dbus.Variant {
	m := map[string]dbus.Variant{}
	for i := 0; i < len(kv); i += 2 {
		m[kv[i].(string)] = dbus.MakeVariant(kv[i+1])
	}
	return m
}

func changedSignal(sender, name string, props any) *dbus.Message {
	return signal(sender, unitPath(name), propsIfc+".PropertiesChanged", sdSvc, props, []string{})
}

func removed(sender, name, job, result string) *dbus.Message {
	return signal(sender, sdPath, sdMgr+".JobRemoved", uint32(1), dbus.ObjectPath(job), name, result)
}

func woken(f *follower) bool {
	select {
	case <-f.wake:
		return true
	default:
		return false
	}
}

func TestWhatWakes(t *testing.T) {
	const name = "foo.service"
	for _, c := range []struct {
		about string
		s     *dbus.Message
		wakes bool
		trail []string
	}{
		{"dead", changedSignal(owner, name, variants("SubState", "dead")), true, []string{"dead"}},
		{"failed", changedSignal(owner, name, variants("SubState", "failed")), true, []string{"failed"}},
		{"exited", changedSignal(owner, name, variants("SubState", "exited")), true, []string{"exited"}},
		{"stopping", changedSignal(owner, name, variants("SubState", "stop-sigterm")), true, []string{"stop-sigterm"}},
		{"a state nobody knows", changedSignal(owner, name, variants("SubState", "novel")), true, []string{"novel"}},
		{"running", changedSignal(owner, name, variants("SubState", "running")), false, []string{"running"}},
		{"start", changedSignal(owner, name, variants("SubState", "start")), false, []string{"start"}},
		{"no code yet", changedSignal(owner, name, variants("ExecMainCode", int32(0))), false, nil},
		{"a code", changedSignal(owner, name, variants("ExecMainCode", int32(1))), true, nil},
		{"dead, though the code is unset", changedSignal(owner, name, variants("SubState", "dead", "ExecMainCode", int32(0))), true, []string{"dead"}},
		{"another property", changedSignal(owner, name, variants("Result", "timeout")), true, nil},
		{"invalidated only", changedSignal(owner, name, variants()), true, nil},
		{"SubState of a wrong type", changedSignal(owner, name, variants("SubState", int32(7))), true, nil},
		{"no body", signal(owner, unitPath(name), propsIfc+".PropertiesChanged"), true, nil},
		{"a body of a wrong type", changedSignal(owner, name, "x"), true, nil},
		{"of a stranger", changedSignal(stranger, name, variants("SubState", "dead")), false, nil},
		{"of another unit", changedSignal(owner, "bar.service", variants("SubState", "dead")), false, nil},
		{"job removed", removed(owner, name, "/j/1", "done"), true, nil},
		{"job of another unit", removed(owner, "bar.service", "/j/1", "done"), false, nil},
		{"job removed, says a stranger", removed(stranger, name, "/j/1", "done"), false, nil},
		{"job removed, malformed", signal(owner, sdPath, sdMgr+".JobRemoved", uint32(1), "/j/1", name, "done"), false, nil},
		{"job removed, short", signal(owner, sdPath, sdMgr+".JobRemoved", uint32(1)), false, nil},
		{"a new manager", signal(busName, busPath, busName+".NameOwnerChanged", sdName, owner, ":1.9"), true, nil},
		{"no manager", signal(busName, busPath, busName+".NameOwnerChanged", sdName, owner, ""), true, nil},
		{"another name's owner", signal(busName, busPath, busName+".NameOwnerChanged", "org.example", owner, ":1.9"), false, nil},
		{"a new manager, says a stranger", signal(stranger, busPath, busName+".NameOwnerChanged", sdName, owner, stranger), false, nil},
		{"another signal", signal(owner, sdPath, sdMgr+".UnitRemoved", name, unitPath(name)), false, nil},
	} {
		p, f := newPump(), newFollower(name)
		p.setOwner(owner)
		p.follow(unitPath(name), f)
		p.DeliverSignal(c.s)
		if got := woken(f); got != c.wakes {
			t.Errorf("%s: woken %v, want %v", c.about, got, c.wakes)
		}
		if got := f.states(); !slices.Equal(got, c.trail) {
			t.Errorf("%s: the trail is %q, want %q", c.about, got, c.trail)
		}
	}
}

func TestOwnerFollowsTheName(t *testing.T) {
	p, f := newPump(), newFollower("foo.service")
	p.setOwner(owner)
	p.follow(unitPath("foo.service"), f)
	p.DeliverSignal(signal(busName, busPath, busName+".NameOwnerChanged", sdName, owner, ""))
	p.DeliverSignal(signal(busName, busPath, busName+".NameOwnerChanged", sdName, "", ":1.9"))
	woken(f)
	if p.DeliverSignal(removed(owner, "foo.service", "/j/1", "done")); woken(f) {
		t.Error("the old owner is still believed")
	}
	if p.DeliverSignal(removed(":1.9", "foo.service", "/j/1", "done")); !woken(f) {
		t.Error("the new owner is not believed")
	}
}

var (
	unitNames = []string{"a.service", "b-c.service", `d\x2de.service`}
	senders   = []string{owner, owner, owner, stranger, busName, ""}
	subs      = []string{"dead", "failed", "exited", "running", "start", "start-pre", "stop-sigterm", "final-sigkill", "novel"}
	ends      = []string{"done", "failed", "canceled", "timeout", "dependency", "skipped"}
)

// The read loop must get on whatever the followers do.
func TestPumpNeverWaits(t *testing.T) {
	p := newPump()
	p.setOwner(owner)
	f := newFollower("a.service")
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					p.follow(unitPath("a.service"), f)
					p.paths()
					f.states()
					p.forget(unitPath("a.service"), f)
				}
			}
		})
	}
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		for i := range 20000 {
			p.DeliverSignal(removed(owner, "a.service", fmt.Sprintf("/j/%d", i), "done"))
			p.DeliverSignal(changedSignal(owner, "a.service", variants("SubState", subs[i%len(subs)])))
		}
	}()
	select {
	case <-delivered:
	case <-time.After(time.Minute):
		t.Error("the pump waits for somebody")
	}
	close(done)
	wg.Wait()
}
