package dbusclient

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// model is what must be true of one followed unit.
type model struct {
	f       *follower
	pending bool // a wake-up must be there
	results map[dbus.ObjectPath]string
	trail   []string
}

func drawSignal(t *rapid.T) *dbus.Message {
	name := rapid.SampledFrom(append([]string{"unknown.service"}, unitNames...)).Draw(t, "unit")
	sender := rapid.SampledFrom(senders).Draw(t, "sender")
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		return removed(sender, name, fmt.Sprintf("/j/%d", rapid.IntRange(1, 90).Draw(t, "job")), rapid.SampledFrom(ends).Draw(t, "result"))
	case 1:
		return changedSignal(sender, name, variants("SubState", rapid.SampledFrom(subs).Draw(t, "sub"), "ExecMainCode", int32(rapid.IntRange(0, 2).Draw(t, "code"))))
	case 2:
		return changedSignal(sender, name, variants("ExecMainCode", int32(rapid.IntRange(0, 2).Draw(t, "code"))))
	case 3:
		member := rapid.SampledFrom([]string{sdMgr + ".JobRemoved", propsIfc + ".PropertiesChanged", busName + ".NameOwnerChanged", "x.y.Z"}).Draw(t, "member")
		body := rapid.SliceOfN(rapid.SampledFrom([]any{nil, "x", sdName, uint32(1), dbus.ObjectPath("/j/1"), variants("SubState", int32(1)), []string{}}), 0, 5).Draw(t, "body")
		return signal(sender, unitPath(name), member, body...)
	}
	return signal(rapid.SampledFrom([]string{busName, stranger}).Draw(t, "who"), busPath, busName+".NameOwnerChanged", sdName, owner, owner)
}

// followers are all models with their units' names.
func followers(units map[string][]*model) iter.Seq2[string, *model] {
	return func(yield func(string, *model) bool) {
		for name, all := range units {
			for _, m := range all {
				if !yield(name, m) {
					return
				}
			}
		}
	}
}

// After any history no wake-up is lost, none is doubled, and each unit has
// what its own manager said of it.
func TestPumpHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPump()
		p.setOwner(owner)
		units, manager := map[string][]*model{}, owner
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for name, m := range followers(units) {
					if n := len(m.f.wake); n > 1 || m.pending && n == 0 {
						t.Fatalf("%s has %d wake-ups, one is due: %v", name, n, m.pending)
					}
					for job, want := range m.results {
						if got, ok := m.f.result(job); !ok || got != want {
							t.Fatalf("job %s of %s ended as %q, %v; want %q", job, name, got, ok, want)
						}
					}
					if len(m.f.results) > maxTrail || len(m.f.states()) > maxTrail {
						t.Fatalf("%s remembers %d results and %d states", name, len(m.f.results), len(m.f.states()))
					}
					if got := m.f.states(); !slices.Equal(got, m.trail) {
						t.Fatalf("the trail of %s is %q, want %q", name, got, m.trail)
					}
				}
			},
			"follow": func(t *rapid.T) {
				name := rapid.SampledFrom(unitNames).Draw(t, "unit")
				m := &model{f: newFollower(name), results: map[dbus.ObjectPath]string{}}
				units[name] = append(units[name], m)
				p.follow(unitPath(name), m.f)
			},
			"forget": func(t *rapid.T) {
				name := rapid.SampledFrom(unitNames).Draw(t, "unit")
				all := units[name]
				if len(all) == 0 {
					return
				}
				i := rapid.IntRange(0, len(all)-1).Draw(t, "which")
				last := p.forget(unitPath(name), all[i].f) != nil
				units[name] = slices.Delete(all, i, i+1)
				if want := len(units[name]) == 0; last != want {
					t.Fatalf("the last follower of %s went: %v, want %v", name, last, want)
				}
			},
			"take": func(t *rapid.T) {
				for _, m := range units[rapid.SampledFrom(unitNames).Draw(t, "unit")] {
					woken(m.f)
					m.pending = false
				}
			},
			"poke all": func(*rapid.T) {
				p.pokeAll()
				for _, m := range followers(units) {
					m.pending = true
				}
			},
			"signal": func(t *rapid.T) {
				s := drawSignal(t)
				for range rapid.IntRange(1, 3).Draw(t, "times") {
					p.DeliverSignal(s)
				}
				expect(units, &manager, s)
			},
		})
	})
}

// expect says again, in the model, what a signal means.
func expect(units map[string][]*model, manager *string, s *dbus.Message) {
	switch s.Interface + "." + s.Member {
	case busName + ".NameOwnerChanged":
		if len(s.Body) == 3 && s.Body[0] == sdName && s.Sender == busName {
			for _, m := range followers(units) {
				m.pending = true
			}
			if next, _ := s.Body[2].(string); next != "" {
				*manager = next
			}
		}
	case sdMgr + ".JobRemoved":
		if s.Sender != *manager || len(s.Body) != 4 {
			return
		}
		job, _ := s.Body[1].(dbus.ObjectPath)
		name, _ := s.Body[2].(string)
		result, ok := s.Body[3].(string)
		if job == "" || !ok {
			return
		}
		for _, m := range units[name] {
			m.pending = true
			if len(m.results) < maxTrail {
				m.results[job] = result
			}
		}
	case propsIfc + ".PropertiesChanged":
		for name, m := range followers(units) {
			if unitPath(name) != s.Path || s.Sender != *manager || len(s.Body) < 2 {
				continue
			}
			props, _ := s.Body[1].(map[string]dbus.Variant)
			sub, stated := props["SubState"].Value().(string)
			if stated && len(m.trail) < maxTrail && (len(m.trail) == 0 || m.trail[len(m.trail)-1] != sub) {
				m.trail = append(m.trail, sub)
			}
			code, coded := props["ExecMainCode"].Value().(int32)
			runs := slices.Contains([]string{"start", "start-pre", "running"}, sub)
			m.pending = m.pending || stated && !runs || !stated && (!coded || code != 0)
		}
	}
}

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
	case <-time.After(30 * time.Second):
		t.Error("the pump waits for somebody")
	}
	close(done)
	wg.Wait()
}
