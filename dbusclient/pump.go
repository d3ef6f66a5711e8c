package dbusclient

import (
	"encoding/hex"
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
	// dates are the last that a signal told of.
	dates dates
	// invocation and pid are those that a signal told of; empty and 0 before.
	invocation string
	pid        int
	// resultWord is the unit's Result that a signal told of last.
	resultWord string
}

// dates of a unit in microseconds since 1970; 0 is never, or not told.
type dates struct{ start, exit, inactive uint64 }

// told is what signals told of the unit's dates and Result.
func (f *follower) told() (dates, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dates, f.resultWord
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

// state is the SubState that a signal told of last; empty when none did.
func (f *follower) state() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.trail); n > 0 {
		return f.trail[n-1]
	}
	return ""
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
	f.date(props)
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

func (f *follower) identity() Identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Identity{InvocationID: f.invocation, MainPID: f.pid, StartedAt: wall(f.dates.start)}
}

func (f *follower) date(props map[string]dbus.Variant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	take(props, "ExecMainStartTimestamp", &f.dates.start)
	take(props, "ExecMainExitTimestamp", &f.dates.exit)
	take(props, "InactiveEnterTimestamp", &f.dates.inactive)
	var id []byte
	if take(props, "InvocationID", &id); len(id) == 16 {
		f.invocation = hex.EncodeToString(id)
	}
	var pid uint32
	if take(props, "ExecMainPID", &pid); pid != 0 {
		f.pid = int(pid)
	}
	take(props, "Result", &f.resultWord)
}

// take sets into to a property's value, if it is there and of that type.
func take[T any](props map[string]dbus.Variant, name string, into *T) {
	if v, ok := props[name].Value().(T); ok {
		*into = v
	}
}

func (f *follower) note(sub string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.trail); n < maxTrail && (n == 0 || f.trail[n-1] != sub) {
		f.trail = append(f.trail, sub)
	}
}
