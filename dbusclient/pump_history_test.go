package dbusclient

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/unitward/unitward/dbusclient/dbus"
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
