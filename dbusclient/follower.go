package dbusclient

import (
	"context"
	"encoding/hex"
	"sync"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// maxTrail bounds how many states of a unit are remembered.
const maxTrail = 64

// follower is what the pump knows of one unit, for one who follows it.
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
	// code and status are the main process's that a signal told of last, and
	// end is the end that they make with the InvocationID that came next.
	code, status int32
	end          *End
}

// End is the end of a main process as the manager itself signalled it. It is
// what reading the unit would have said at that moment, and it is left when
// the unit was unloaded before it could be read.
type End struct {
	// InvocationID is that of the start which ended, 32 hexadecimal digits.
	InvocationID string
	// Code and Status are ExecMainCode, never 0, and ExecMainStatus.
	Code, Status int32
	// ActiveState and SubState are the unit's at that moment, which need not
	// be its last.
	ActiveState, SubState string
	// Result is the unit's Result; empty when it was not told.
	Result string
	// At is ExecMainExitTimestamp; zero when it was not told.
	At time.Time
}

// ended is the end that signals told of; nil while they told of none.
func (f *follower) ended() *End {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.end
}

// final is true for the end of a unit that nothing follows.
func (e *End) final() bool {
	return e != nil && (e.ActiveState == "inactive" || e.ActiveState == "failed") && (e.SubState == "dead" || e.SubState == "failed")
}

// awaitEnd is the final end that signals tell of within the time; else nil.
func (f *follower) awaitEnd(ctx context.Context, most time.Duration) *End {
	if end := f.ended(); end.final() {
		return end
	}
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		select {
		case <-f.wake:
			if end := f.ended(); end.final() {
				return end
			}
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// dates of a unit in microseconds since 1970; 0 is never, or not told.
type dates struct{ start, exit, inactive, handoff uint64 }

// told is what signals told of the unit's dates and Result.
func (f *follower) told() (dates, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dates, f.resultWord
}

func newFollower(name string) *follower {
	return &follower{name: name, wake: make(chan struct{}, 1), results: map[dbus.ObjectPath]string{}}
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

func (f *follower) changed(props map[string]dbus.Variant) {
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

func (f *follower) identity() Identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Identity{InvocationID: f.invocation, MainPID: f.pid, StartedAt: wall(f.dates.start)}
}

// overlay puts what signals told into the reading of a unit that is gone.
func (f *follower) overlay(r *Reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.invocation == "" {
		return
	}
	r.InvocationID, r.MainPID, r.HandoffAt = f.invocation, f.pid, wall(f.dates.handoff)
	r.ExecMainCode, r.ExecMainStatus = f.code, f.status
	if f.resultWord != "" {
		r.Result = f.resultWord
	}
}

func (f *follower) date(props map[string]dbus.Variant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	take(props, "ExecMainStartTimestamp", &f.dates.start)
	take(props, "ExecMainExitTimestamp", &f.dates.exit)
	take(props, "InactiveEnterTimestamp", &f.dates.inactive)
	take(props, "ExecMainHandoffTimestamp", &f.dates.handoff)
	var id []byte
	if take(props, "InvocationID", &id); len(id) == 16 {
		f.invocation = hex.EncodeToString(id)
	}
	var pid uint32
	if take(props, "ExecMainPID", &pid); pid != 0 {
		f.pid = int(pid)
	}
	take(props, "Result", &f.resultWord)
	// A manager signals the service's properties and then the unit's, with
	// nothing in between (bus_unit_send_change_signal()).
	take(props, "ExecMainCode", &f.code)
	take(props, "ExecMainStatus", &f.status)
	if len(id) == 16 && f.code != 0 {
		f.end = &End{InvocationID: f.invocation, Code: f.code, Status: f.status, Result: f.resultWord, At: wall(f.dates.exit)}
		take(props, "ActiveState", &f.end.ActiveState)
		take(props, "SubState", &f.end.SubState)
	}
}

func (f *follower) note(sub string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.trail); n < maxTrail && (n == 0 || f.trail[n-1] != sub) {
		f.trail = append(f.trail, sub)
	}
}

// underway lists the SubStates of a service in which it has not ended.
func underway(sub string) bool {
	switch sub {
	case "start", "start-pre", "start-post", "running", "condition":
		return true
	}
	return false
}

// take sets into to a property's value, if it is there and of that type.
func take[T any](props map[string]dbus.Variant, name string, into *T) {
	if v, ok := props[name].Value().(T); ok {
		*into = v
	}
}
