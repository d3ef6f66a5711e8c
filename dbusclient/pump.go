package dbusclient

import (
	"sync"

	"github.com/godbus/dbus/v5"
)

// maxTrail bounds how many states of a unit are remembered.
const maxTrail = 64

// pump takes every signal from the connection's read loop, where it must
// never wait: it notes what concerns a followed unit and wakes its follower.
type pump struct {
	mu    sync.Mutex
	units map[dbus.ObjectPath]*follower
	// owner is the manager's unique name; a signal of another sender is not
	// the manager's. Empty on a private socket, where there is only one peer.
	owner string
}

// follower is what the pump knows of one unit.
type follower struct {
	name string
	// wake holds at most one wake-up: more would say no more.
	wake chan struct{}

	mu sync.Mutex
	// results are the results of the unit's jobs that were removed, by job.
	results map[dbus.ObjectPath]string
	// trail is the unit's SubStates as signalled, oldest first. It dates the
	// steps of a stop; nothing is decided by it.
	trail []string
}

func newFollower(name string) *follower {
	return &follower{name: name, wake: make(chan struct{}, 1), results: map[dbus.ObjectPath]string{}}
}

func newPump() *pump {
	return &pump{units: map[dbus.ObjectPath]*follower{}}
}

func (f *follower) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// result is how a job of the unit ended: done, failed, canceled, timeout,
// dependency, skipped …; ok is false while that is not known.
func (f *follower) result(job dbus.ObjectPath) (result string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	result, ok = f.results[job]
	return result, ok
}

func (f *follower) states() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.trail...)
}

// goesOn is true when the last signal told of a unit that has not ended.
func (f *follower) goesOn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.trail)
	return n > 0 && underway(f.trail[n-1])
}

func (p *pump) follow(path dbus.ObjectPath, f *follower) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.units[path] = f
}

func (p *pump) forget(path dbus.ObjectPath) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.units, path)
}

func (p *pump) setOwner(owner string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.owner = owner
}

func (p *pump) pokeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.units {
		f.poke()
	}
}

func (p *pump) paths() map[dbus.ObjectPath]*follower {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[dbus.ObjectPath]*follower, len(p.units))
	for path, f := range p.units {
		all[path] = f
	}
	return all
}

// DeliverSignal is called by the connection for every signal, in order.
func (p *pump) DeliverSignal(iface, member string, s *dbus.Signal) {
	switch {
	case iface == busName && member == "NameOwnerChanged":
		// The manager came or went (daemon-reexec): whatever was signalled
		// meanwhile is lost, so everybody looks again.
		if len(s.Body) == 3 && s.Body[0] == sdName && s.Sender == busName {
			if owner, ok := s.Body[2].(string); ok && owner != "" {
				p.setOwner(owner)
			}
			p.pokeAll()
		}
	case iface == sdMgr && member == "JobRemoved":
		p.jobRemoved(s)
	case iface == propsIfc && member == "PropertiesChanged":
		p.changed(s)
	}
}

func (p *pump) genuine(s *dbus.Signal) bool {
	return p.owner == "" || s.Sender == p.owner
}

func (p *pump) jobRemoved(s *dbus.Signal) {
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
	f := p.units[unitPath(name)]
	if f == nil || !p.genuine(s) {
		return
	}
	f.mu.Lock()
	if len(f.results) < maxTrail {
		f.results[job] = result
	}
	f.mu.Unlock()
	f.poke()
}

func (p *pump) changed(s *dbus.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.units[s.Path]
	if f == nil || !p.genuine(s) {
		return
	}
	props, _ := second(s.Body).(map[string]dbus.Variant)
	sub, stated := props["SubState"].Value().(string)
	if stated {
		f.note(sub)
	}
	if code, ok := props["ExecMainCode"].Value().(int32); ok && code == 0 && !stated || stated && underway(sub) {
		// It only runs on: nobody waits for that, and a start is waited for
		// by its job. Should something be missed, the followers' ticks see it.
		return
	}
	f.poke()
}

func second(body []any) any {
	if len(body) < 2 {
		return nil
	}
	return body[1]
}

// underway lists the SubStates of a service in which it has not ended.
func underway(sub string) bool {
	switch sub {
	case "start", "start-pre", "start-post", "running", "condition":
		return true
	}
	return false
}

func (f *follower) note(sub string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.trail); n < maxTrail && (n == 0 || f.trail[n-1] != sub) {
		f.trail = append(f.trail, sub)
	}
}
