package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// OwnerError says that a job cannot be bound to a unit, or to a process where Unit
// is empty. Nothing of it ran.
type OwnerError struct {
	Unit string
	PID  int
	Why  string
}

func (e *OwnerError) Error() string {
	owner := "unit " + e.Unit
	if e.Unit == "" {
		owner = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("cannot end a job with %s: %s", owner, e.Why)
}

// Hint proposes the way out.
func (e *OwnerError) Hint() []string {
	if e.Unit == "" {
		return []string{"name a process that is there, or a unit that has processes with --owner-unit"}
	}
	return []string{"name a unit that has processes, or one of them with --owner-pid"}
}

// ownerUnit finds the unit that a job is to end with: of the job's own manager, or
// else of the other one, as a session's scope is for jobs of a user's manager.
//
// It is recognised by its cgroup in every isolation. BindsTo= would do in some, but
// it binds to units of the same manager alone, starts one that has just ended, and
// delays the end of its own by the job's.
func (l *Launcher) ownerUnit(ctx context.Context, s *unit.Spec) (unit.OwnerUnit, error) {
	h := l.hierarchy()
	if h == nil {
		return unit.OwnerUnit{}, &OwnerError{Unit: s.OwnerUnit, Why: "nobody can see when it has no process left: " + cgroup.ErrNoHierarchy.Error()}
	}
	managers := []unit.Manager{unit.ManagerUser, unit.ManagerSystem}
	if s.Manager == unit.ManagerSystem {
		managers = []unit.Manager{unit.ManagerSystem, unit.ManagerUser}
	}
	var whys []string
	for _, m := range managers {
		asked, cancel := context.WithTimeout(ctx, actWait)
		defer cancel()
		c, err := l.client(asked, here(m))
		if err != nil {
			whys = append(whys, err.Error())
			continue
		}
		path, err := c.CgroupOf(asked, s.OwnerUnit)
		switch {
		case err != nil:
			whys = append(whys, err.Error())
			continue
		case path == "":
			whys = append(whys, fmt.Sprintf("the %s manager knows no such unit that has processes", m))
			continue
		}
		g, err := h.Lookup(path)
		if err != nil {
			whys = append(whys, err.Error())
			continue
		}
		o := unit.OwnerUnit{Unit: s.OwnerUnit, Manager: m, Cgroup: path, Inode: g.Inode}
		if state := g.Glance(); state.State != verify.CgroupPopulated {
			whys = append(whys, fmt.Sprintf("there is no process in %s", path))
			continue
		}
		return o, nil
	}
	return unit.OwnerUnit{}, &OwnerError{Unit: s.OwnerUnit, Why: strings.Join(whys, "; ")}
}

// OwnerGone reports whether what a job of lifetime owner was to end with has ended.
func OwnerGone(rec *unit.Record) bool {
	if rec.OwnerUnit.Unit == "" {
		return pidsHold(rec) && Ended(rec.OwnerProcess)
	}
	h, err := cgroup.FindHierarchy()
	return err == nil && over(ownerGroup(h, rec))
}

func ownerGroup(h *cgroup.Hierarchy, rec *unit.Record) *cgroup.Group {
	return h.Recorded(rec.OwnerUnit.Cgroup, rec.OwnerUnit.Inode)
}

// over is true for a cgroup that is seen to have no process of its time.
func over(g *cgroup.Group) bool {
	switch g.Glance().State {
	case verify.CgroupGone, verify.CgroupEmpty, verify.CgroupReplaced:
		return true
	}
	return false
}

// watchUnit is watchProcess for a cgroup: ended is closed when it has no process
// left.
func watchUnit(g *cgroup.Group) (ended <-chan struct{}, stop func()) {
	return poll(func() bool { return over(g) }, func() (<-chan struct{}, func()) {
		if w, err := g.Watch(); err == nil {
			return w.C, w.Close
		}
		return nil, func() {}
	})
}

// watchProcess closes ended when a process has ended, or by stop. Where no
// descriptor of it is to be had it is looked for once in a tick: that says nothing
// of the process.
func watchProcess(p unit.Process) (ended <-chan struct{}, stop func()) {
	ended, stop, err := keeper.Watch(p)
	switch {
	case errors.Is(err, unix.ESRCH):
		gone := make(chan struct{})
		close(gone)
		return gone, func() {}
	case err != nil:
		return poll(func() bool { return Ended(p) }, func() (<-chan struct{}, func()) { return nil, func() {} })
	}
	return ended, stop
}

// poll closes done when over says so, or by stop. It is asked at each change that
// the kernel tells of, and once in a tick.
func poll(over func() bool, watch func() (changed <-chan struct{}, unwatch func())) (done <-chan struct{}, stop func()) {
	ended, quit := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		changed, unwatch := watch()
		defer unwatch()
		timer := time.NewTicker(tick)
		defer timer.Stop()
		for !over() {
			select {
			case <-quit:
				return
			case _, open := <-changed:
				if !open {
					changed = nil
				}
			case <-timer.C:
			}
		}
	}()
	return ended, func() { close(quit) }
}

// guardUnit starts the guard of a service that ends with its owner's unit.
func (u *service) guardUnit() (*keeper.Guard, error) {
	g := ownerGroup(u.j.l.hierarchy(), u.j.rec())
	events, err := g.EventsPath()
	if err != nil {
		return nil, err
	}
	return keeper.GuardCgroup(events)
}
