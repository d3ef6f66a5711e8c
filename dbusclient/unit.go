package dbusclient

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Unit is a unit that the client follows. Close it.
type Unit struct {
	c        *Client
	name     string
	path     dbus.ObjectPath
	follower *follower
	// job is the start job; empty for a unit that was opened.
	job dbus.ObjectPath
	// stops is true once it is among the client's stops. It is for who holds
	// Client.holds.
	stops bool
}

func (c *Client) unit(name string) *Unit {
	return &Unit{c: c, name: name, path: unitPath(name), follower: newFollower(name)}
}

// Open follows an existing unit and holds it loaded, where the connection can.
// A unit that the manager does not know is no error: Read says so. A unit can
// be opened again: the connection holds it once, until the last Close.
func (c *Client) Open(ctx context.Context, name string) (*Unit, error) {
	u := c.unit(name)
	l, asked := c.hold(ctx, u)
	if asked == nil {
		return u, nil
	}
	err := asked.wait()
	if err != nil && !isNoReply(err) {
		c.unheld(u, l)
	}
	if err != nil && (isNoReply(err) || isNamed(err, errServiceGone, errNameNoOwner)) {
		u.Close()
		return nil, c.typed("open "+name, name, "", err)
	}
	return u, nil
}

// Close stops to follow the unit and lets go of it. Nobody waits for the
// manager's answers. It can be called again.
func (u *Unit) Close() { u.c.drop(u) }

// Loaded reports whether the manager has a unit of any type loaded.
func (c *Client) Loaded(ctx context.Context, name string) (bool, error) {
	var state string
	err := c.unit(name).ask(ctx, []question{{sdUnit, "LoadState", &state, false}})
	return state == "loaded", err
}

// Leaving reports whether a unit is not loaded, or has ended and is held by the scope
// of a guard alone, with which it is unloaded.
func (c *Client) Leaving(ctx context.Context, name string) (bool, error) {
	var load, active string
	var bound []string
	// LoadState last: the others can be the defaults of a unit that was unloaded meanwhile.
	err := c.unit(name).ask(ctx, []question{
		{sdUnit, "BindsTo", &bound, false}, {sdUnit, "ActiveState", &active, false}, {sdUnit, "LoadState", &load, false},
	})
	ended := active == "inactive" || active == "failed"
	return load == "not-found" || ended && slices.ContainsFunc(bound, isGuardScope), err
}

// Version is the major version of the unit's manager; 0 when it could not be
// read.
func (u *Unit) Version() int { return u.c.Version() }

// Changed receives after something about the unit may have changed.
func (u *Unit) Changed() <-chan struct{} { return u.follower.wake }

// Trail lists the unit's SubStates since it is followed, oldest first, as far
// as signals told of them. It dates steps and decides nothing.
func (u *Unit) Trail() []string { return u.follower.states() }

// Told reports whether a signal told of the unit since it is followed.
func (u *Unit) Told() bool { return u.follower.state() != "" }

// GoesOn reports whether the last signal told of a unit that has not ended.
// Changed then receives at its end. Like every signal it proves nothing.
func (u *Unit) GoesOn() bool { return underway(u.follower.state()) }

// Ended reports whether the last signal told of a unit that has ended, as a
// hint that there is something to read. Like every signal it proves nothing.
func (u *Unit) Ended() bool {
	state := u.follower.state()
	return state != "" && !underway(state)
}

// Reading is one reading of a unit.
type Reading struct {
	verify.Unit
	// MainPID is the last main process, running or not; 0 when there was
	// none. Only DepthAll reads it.
	MainPID int
	// Slice is the slice that the unit is in; empty when it is not loaded. Only
	// DepthAll and ReadEnded read it.
	Slice string
	// HandoffAt is when the command was executed (systemd 256); zero when it
	// was not, or is not known. Only DepthAll reads it.
	HandoffAt time.Time
	// CPUUsage and MemoryPeak are nil where the manager does not count.
	CPUUsage, MemoryPeak *uint64
	// Frozen is true for a unit elsewhere whose processes its manager has
	// frozen. Only DepthAll reads it.
	Frozen bool
	// Absent is true when nothing could be read because the manager is not
	// there, rather than slow: the connection broke, or nobody has its name.
	Absent bool
	// Told is the end that the manager signalled; nil when it did not. It is
	// of the start that it names, which need not be the one that was read.
	Told *End
}

// Identity is what a unit that was just started is recognised by.
type Identity struct {
	// InvocationID is 32 hexadecimal digits; empty when the unit is gone.
	InvocationID string
	// ControlGroup is the cgroup below the cgroup root; empty when the unit
	// has ended already.
	ControlGroup string
	// MainPID is the main process, running or not.
	MainPID int
	// StartedAt is when it started.
	StartedAt time.Time
}

// Identify tells who the unit turned out to be, and nothing that can wait: as
// the manager's signals of the start said it, or by asking. ControlGroup is
// empty where only signals were needed, which do not carry it.
func (u *Unit) Identify(ctx context.Context) (Identity, error) {
	id := u.follower.identity()
	if id.InvocationID != "" && id.MainPID != 0 && !id.StartedAt.IsZero() {
		return id, nil
	}
	var invocation []byte
	var pid uint32
	var start uint64
	err := u.ask(ctx, []question{
		{sdSvc, "ControlGroup", &id.ControlGroup, false},
		{sdSvc, "ExecMainPID", &pid, false},
		{sdSvc, "ExecMainStartTimestamp", &start, false},
		{sdUnit, "InvocationID", &invocation, false},
	})
	id.InvocationID, id.MainPID, id.StartedAt = hex.EncodeToString(invocation), int(pid), wall(start)
	return id, err
}

// Cgroup is where the unit's cgroup is, or was before it ended, below the cgroup
// root; empty when the unit is not loaded. The error is that of the reading.
func (u *Unit) Cgroup(ctx context.Context) (string, error) {
	var at, slice string
	err := u.ask(ctx, []question{{sdSvc, "ControlGroup", &at, false}, {sdSvc, "Slice", &slice, false}})
	if at == "" && slice != "" {
		at = u.c.UnitCgroup(slice, u.name)
	}
	return at, err
}

// question is a property to read, and where its value goes.
type question struct {
	iface, name string
	into        any
	// optional is a property that this systemd may not have.
	optional bool
}

// ask sends all questions before it awaits the first answer. It returns the
// first error.
func (u *Unit) ask(ctx context.Context, questions []question) error {
	l := u.c.current()
	sent := make([]*pending, len(questions))
	for i, q := range questions {
		sent[i] = l.send(ctx, u.path, propsIfc+".Get", q.iface, q.name)
	}
	var first error
	for i, q := range questions {
		var v dbus.Variant
		err := sent[i].wait(&v)
		if err == nil {
			err = dbus.Store([]any{v.Value()}, q.into)
		}
		if err != nil && !q.optional && first == nil {
			first = &askError{fmt.Sprintf("cannot read %s of %s: %s", q.name, u.name, sentence(err)), err}
		}
	}
	return first
}

// askError says which property could not be read, and why.
type askError struct {
	text string
	err  error
}

func (e *askError) Error() string { return e.text }

func (e *askError) Unwrap() error { return e.err }

// Absent reports whether an error says that no manager is there, rather than
// that none has answered yet.
func Absent(err error) bool {
	switch {
	case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return false
	case isNamed(err, errServiceGone, errNameNoOwner):
		return true
	}
	return isNoReply(err)
}

// InvocationID asks for the id of the unit's present start; empty when the
// manager knows of none.
func (u *Unit) InvocationID(ctx context.Context) (string, error) {
	var id []byte
	err := u.ask(ctx, []question{{sdUnit, "InvocationID", &id, false}})
	return hex.EncodeToString(id), err
}

// Depth says how much of a unit to read.
type Depth int

const (
	// DepthVerdict is what a verdict on an end rests on. Result and dates,
	// which only colour it, come from the signals where those told of them.
	DepthVerdict Depth = iota
	// DepthAll is everything in Reading.
	DepthAll
)

// Read reads what the manager knows of the unit now. All questions go out
// before the first answer is awaited. An error is in Reading.Err.
func (u *Unit) Read(ctx context.Context, depth Depth) Reading {
	version := u.c.Version()
	r := Reading{Unit: verify.Unit{ManagerVersion: version, TasksCurrent: verify.TasksUnset}}
	var invocation []byte
	var pid uint32
	cpu, peak := unset, unset
	dates, result := u.follower.told()
	r.Result = result
	var handoff uint64
	var freezer string
	questions := []question{
		{sdUnit, "LoadState", &r.LoadState, false},
		{sdUnit, "ActiveState", &r.ActiveState, false},
		{sdUnit, "SubState", &r.SubState, false},
		{sdSvc, "ExecMainCode", &r.ExecMainCode, false},
		{sdSvc, "ExecMainStatus", &r.ExecMainStatus, false},
		{sdSvc, "ControlGroup", &r.ControlGroup, false},
		{sdSvc, "CPUUsageNSec", &cpu, true},
	}
	if version >= versionMemoryPeak {
		questions = append(questions, question{sdSvc, "MemoryPeak", &peak, true})
	}
	if depth == DepthAll || dates.inactive == 0 || result == "" {
		questions = append(questions,
			question{sdSvc, "Result", &r.Result, false},
			question{sdUnit, "InactiveEnterTimestamp", &dates.inactive, false},
			question{sdSvc, "ExecMainStartTimestamp", &dates.start, false},
			question{sdSvc, "ExecMainExitTimestamp", &dates.exit, false})
	}
	if depth == DepthAll {
		questions = append(questions,
			question{sdSvc, "TasksCurrent", &r.TasksCurrent, false},
			question{sdSvc, "Slice", &r.Slice, false},
			question{sdSvc, "ExecMainPID", &pid, false},
			question{sdSvc, "ExecMainHandoffTimestamp", &handoff, true})
		if u.c.env.Bridge != nil {
			questions = append(questions, question{sdUnit, "FreezerState", &freezer, true}) // systemd 246
		}
	}
	// Last: should the unit be unloaded meanwhile, the defaults that were read
	// of it do not come with its identity.
	questions = append(questions, question{sdUnit, "InvocationID", &invocation, false})
	if err := u.ask(ctx, questions); err != nil {
		r.Err, r.Absent = err.Error(), Absent(err)
	}
	r.Unit.Read = r.Err == "" //nolint:staticcheck // Read is a method's name too
	r.InvocationID = hex.EncodeToString(invocation)
	if r.InvocationID == "" {
		// What the manager says of a unit that it has unloaded are defaults.
		if told, result := u.follower.told(); told.inactive != 0 {
			dates, r.Result = told, result
		}
	}
	r.MainPID = int(pid)
	r.Told, r.Frozen = u.follower.ended(), freezer == "frozen"
	r.MainStartAt, r.MainExitAt, r.InactiveEnterAt, r.HandoffAt = wall(dates.start), wall(dates.exit), wall(dates.inactive), wall(handoff)
	if cpu != unset {
		r.CPUUsage = &cpu
	}
	if peak != unset {
		r.MemoryPeak = &peak
	}
	return r
}

// endWait is how long ReadEnded waits for the end of a unit whose main process
// has ended: nearly always the manager signals the one right after the other
// (0.1 to 0.5 ms), and to read the unit in between would take longer.
const endWait = 5 * time.Millisecond

// ReadEnded is Read of DepthVerdict for a unit that has come to its end, as the
// manager signalled it: what its signals carry is what the same properties read
// at that moment, and only what they do not carry is asked for. It waits a few
// milliseconds for a unit that has begun to end. ok is false for one of which the
// signals told no end. ControlGroup is left empty: whether a process is left has
// to be seen elsewhere.
func (u *Unit) ReadEnded(ctx context.Context) (r Reading, ok bool) {
	end := u.follower.awaitEnd(ctx, endWait)
	if end == nil {
		return Reading{}, false
	}
	r = Reading{Told: end}
	cpu, peak := unset, unset
	questions := []question{{sdSvc, "CPUUsageNSec", &cpu, true}, {sdSvc, "Slice", &r.Slice, false}}
	r.ManagerVersion = u.c.Version()
	if r.ManagerVersion >= versionMemoryPeak {
		questions = append(questions, question{sdSvc, "MemoryPeak", &peak, true})
	}
	if u.ask(ctx, questions) != nil {
		return Reading{}, false
	}
	r.Unit.Read = true //nolint:staticcheck // Read is a method's name too
	r.TasksCurrent, r.LoadState = verify.TasksUnset, "loaded"
	r.ActiveState, r.SubState, r.Result = end.ActiveState, end.SubState, end.Result
	r.ExecMainCode, r.ExecMainStatus, r.InvocationID = end.Code, end.Status, end.InvocationID
	dates, _ := u.follower.told()
	r.MainStartAt, r.MainExitAt, r.InactiveEnterAt = wall(dates.start), wall(dates.exit), wall(dates.inactive)
	if cpu != unset {
		r.CPUUsage = &cpu
	}
	if peak != unset {
		r.MemoryPeak = &peak
	}
	return r, true
}

// ReadStarted is Read of everything for a unit that was just started. Where it
// has been unloaded already, what signals told of it stands in for the main
// process and the InvocationID; the InvocationID is empty when they did not.
func (u *Unit) ReadStarted(ctx context.Context) Reading {
	r := u.Read(ctx, DepthAll)
	if !r.Read || r.LoadState == "loaded" {
		return r
	}
	u.follower.overlay(&r)
	return r
}

// versionMemoryPeak is the first systemd with MemoryPeak (NEWS 255).
const versionMemoryPeak = 255

// unset is systemd's "[not set]" for counters.
const unset = ^uint64(0)

func wall(usec uint64) time.Time {
	if usec == 0 || usec == unset {
		return time.Time{}
	}
	return time.UnixMicro(int64(usec))
}

// Carries reports whether the unit's command line, environment file or slice
// that holds it names the nonce: whether it is the one that a lost start asked for.
func (u *Unit) Carries(ctx context.Context, nonce string) (bool, error) {
	l := u.c.current()
	env := l.send(ctx, u.path, propsIfc+".Get", sdSvc, "EnvironmentFiles")
	cmd := l.send(ctx, u.path, propsIfc+".Get", sdSvc, "ExecStart")
	hold := l.send(ctx, u.path, propsIfc+".Get", sdUnit, "Wants")
	var v, w, x dbus.Variant
	if err := env.wait(&v); err != nil {
		return false, u.c.typed("read "+u.name, u.name, "", err)
	}
	if err := cmd.wait(&w); err != nil {
		return false, u.c.typed("read "+u.name, u.name, "", err)
	}
	if err := hold.wait(&x); err != nil {
		return false, u.c.typed("read "+u.name, u.name, "", err)
	}
	return mentions(v, nonce) || mentions(w, nonce) || mentions(x, nonce), nil
}

// mentions reports whether a string in a value has the text in it.
func mentions(value any, text string) bool {
	in := func(v any) bool { return mentions(v, text) }
	switch v := value.(type) {
	case string:
		return strings.Contains(v, text)
	case []string:
		return slices.ContainsFunc(v, func(s string) bool { return strings.Contains(s, text) })
	case []any:
		return slices.ContainsFunc(v, in)
	case dbus.Variant:
		return in(v.Value())
	}
	return false
}

// Kill sends a signal to processes of the unit. The error is a
// *unit.EndedError when there is none.
func (u *Unit) Kill(ctx context.Context, who unit.Who, signal int) error {
	op := "signal " + u.name
	err := u.c.current().send(ctx, sdPath, sdMgr+".KillUnit", u.name, string(who), int32(signal)).wait()
	if isNamed(err, errNoSuchProcess, errNoSuchUnit, errNotLoaded) {
		return &unit.EndedError{Op: "signal", Name: u.name}
	}
	return u.c.typed(op, u.name, actionManageUnits, err)
}

// Stop asks the manager to stop the unit and does not wait. A unit that is not
// loaded is stopped.
func (u *Unit) Stop(ctx context.Context) error {
	var job dbus.ObjectPath
	err := u.c.current().send(ctx, sdPath, sdMgr+".StopUnit", u.name, "replace").wait(&job)
	if isNamed(err, errNoSuchUnit, errNotLoaded) {
		return nil
	}
	return u.c.typed("stop "+u.name, u.name, actionManageUnits, err)
}

// Freeze stops every process of the unit until Thaw, in a way that they
// cannot notice (systemd 246). The error is a *unit.EndedError when there is
// nothing to freeze.
func (u *Unit) Freeze(ctx context.Context) error { return u.freezer(ctx, "Freeze") }

// Thaw undoes Freeze.
func (u *Unit) Thaw(ctx context.Context) error { return u.freezer(ctx, "Thaw") }

func (u *Unit) freezer(ctx context.Context, what string) error {
	err := u.c.current().send(ctx, sdPath, sdMgr+"."+what+"Unit", u.name).wait()
	if isNamed(err, errNoSuchUnit, errNotLoaded, errUnitInactive) {
		return &unit.EndedError{Op: strings.ToLower(what), Name: u.name}
	}
	if isNamed(err, errNotSupported) {
		return &unit.FreezeError{Op: strings.ToLower(what), Unit: u.name, Detail: sentence(err)}
	}
	return u.c.typed(strings.ToLower(what)+" "+u.name, u.name, actionManageUnits, err)
}
