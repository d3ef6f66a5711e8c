package dbusclient

import (
	"maps"
	"slices"
	"sync"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// pump takes every signal from the connection's read loop, where it must
// never wait: it notes what concerns a followed unit and wakes its follower.
type pump struct {
	mu    sync.Mutex
	units map[dbus.ObjectPath]*followed
	// owner is the manager's unique name on the bus; a signal of another
	// sender is not the manager's. Empty while no bus was entered.
	owner string
}

// followed is a unit, for all who follow it: a connection asks once for its
// signals and holds it once. Two references of one connection make a manager
// of systemd 247 loop and crash (seen). The fields are the Client's.
type followed struct {
	name      string
	followers []*follower
	// matched and held are the links on which its signals were asked for and
	// on which it is referenced; nil for none.
	matched, held *link
}

func newPump() *pump {
	return &pump{units: map[dbus.ObjectPath]*followed{}}
}

// follow adds a follower of a unit.
func (p *pump) follow(path dbus.ObjectPath, f *follower) *followed {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.units[path]
	if u == nil {
		u = &followed{name: f.name}
		p.units[path] = u
	}
	u.followers = append(u.followers, f)
	return u
}

// forget drops a follower. It returns the unit when nobody follows it any
// more, else nil.
func (p *pump) forget(path dbus.ObjectPath, f *follower) *followed {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.units[path]
	if u == nil {
		return nil
	}
	i := slices.Index(u.followers, f)
	if i < 0 {
		return nil
	}
	u.followers = slices.Delete(u.followers, i, i+1)
	if len(u.followers) > 0 {
		return nil
	}
	delete(p.units, path)
	return u
}

func (p *pump) setOwner(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner = owner
}

func (p *pump) pokeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, u := range p.units {
		for _, f := range u.followers {
			f.poke()
		}
	}
}

// count is how many units are followed.
func (p *pump) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.units)
}

func (p *pump) paths() map[dbus.ObjectPath]*followed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.units)
}

// DeliverSignal is called by a bus's connection for every signal, in order.
func (p *pump) DeliverSignal(m *dbus.Message) { p.deliver(false, m) }

// deliverPrivate is DeliverSignal for a private socket: there is only one peer.
func (p *pump) deliverPrivate(m *dbus.Message) { p.deliver(true, m) }

func (p *pump) deliver(private bool, s *dbus.Message) {
	switch {
	case s.Interface == busName && s.Member == "NameOwnerChanged":
		// The manager came or went (daemon-reexec): whatever was signalled
		// meanwhile is lost, so everybody looks again.
		if len(s.Body) == 3 && s.Body[0] == sdName && s.Sender == busName {
			if owner, ok := s.Body[2].(string); ok && owner != "" {
				p.setOwner(owner)
			}
			p.pokeAll()
		}
	case s.Interface == sdMgr && s.Member == "JobRemoved":
		p.jobRemoved(s, private)
	case s.Interface == propsIfc && s.Member == "PropertiesChanged":
		p.changed(s, private)
	}
}

func (p *pump) genuine(s *dbus.Message, private bool) bool {
	return private || s.Sender == p.owner
}

func (p *pump) jobRemoved(s *dbus.Message, private bool) {
	if len(s.Body) != 4 {
		return
	}
	job, ok1 := s.Body[1].(dbus.ObjectPath)
	name, ok2 := s.Body[2].(string)
	result, ok3 := s.Body[3].(string)
	if !ok1 || !ok2 || !ok3 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.units[unitPath(name)]
	if u == nil || !p.genuine(s, private) {
		return
	}
	for _, f := range u.followers {
		f.mu.Lock()
		if len(f.results) < maxTrail {
			f.results[job] = result
		}
		f.mu.Unlock()
		f.poke()
	}
}

func (p *pump) changed(s *dbus.Message, private bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.units[s.Path]
	if u == nil || !p.genuine(s, private) {
		return
	}
	props, _ := second(s.Body).(map[string]dbus.Variant)
	for _, f := range u.followers {
		f.changed(props)
	}
}

func second(body []any) any {
	if len(body) < 2 {
		return nil
	}
	return body[1]
}

// told lists the properties that a follower takes from signals.
func told(name []byte) bool {
	switch string(name) {
	case "ActiveState", "SubState", "Result", "InvocationID", "ExecMainCode", "ExecMainStatus", "ExecMainPID",
		"ExecMainStartTimestamp", "ExecMainExitTimestamp", "ExecMainHandoffTimestamp", "InactiveEnterTimestamp":
		return true
	}
	return false
}
