package launch

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Ladder are the isolations, the strongest evidence first: what `auto` tries.
func Ladder() []string {
	return []string{verify.IsolationService, verify.IsolationScope, verify.IsolationCgroup, verify.IsolationGroup}
}

// managed is true for a rung that a systemd manager holds.
func managed(rung string) bool {
	return rung == verify.IsolationService || rung == verify.IsolationScope
}

// climb starts the job on the first rung that works. A rung that is the only
// one never gives way to another.
func (j *Job) climb(ctx context.Context, s *unit.Spec, io Stdio) error {
	var first error
	managers := true // every rung so far lacked a manager, and nothing else
	for i, rung := range s.Isolation {
		err := j.try(ctx, rung, s, io)
		if err == nil || !givesWay(err) {
			return err
		}
		if first == nil {
			first = err
		}
		var none *unit.NoManagerError
		managers = managers && errors.As(err, &none)
		j.rec().Refused = append(j.rec().Refused, unit.Refusal{What: rung, Why: reason(err)})
		if i == len(s.Isolation)-1 {
			if i == 0 || managers {
				return first
			}
			return &unit.IsolationError{Isolation: strings.Join(s.Isolation, ","), Refused: j.rec().Refused, Hints: []string{"unitward doctor says what each needs"}}
		}
	}
	return nil
}

// givesWay is true for a failure of the rung itself: the next may work.
func givesWay(err error) bool {
	var none *unit.NoManagerError
	var isolation *unit.IsolationError
	var access *unit.AccessError
	return errors.As(err, &none) || errors.As(err, &isolation) || errors.As(err, &access)
}

// reason is why a rung was not taken, in one line.
func reason(err error) string {
	var isolation *unit.IsolationError
	if errors.As(err, &isolation) && len(isolation.Refused) == 1 {
		return isolation.Refused[0].String()
	}
	return err.Error()
}

func (j *Job) try(ctx context.Context, rung string, s *unit.Spec, io Stdio) error {
	id := &j.rec().Identity
	*id = unit.Identity{Host: id.Host, Boot: id.Boot, UID: id.UID, Nonce: id.Nonce, PIDNamespace: id.PIDNamespace, Isolation: rung}
	j.rec().Tended, j.rec().Left = false, nil
	if why := unfit(s, rung); why != "" {
		return &unit.IsolationError{Isolation: rung, Refused: []unit.Refusal{{What: rung, Why: why}}}
	}
	if rung == verify.IsolationScope && len(s.Properties) > 0 {
		err := property.OfScope(s.Properties)
		switch {
		case err != nil && len(s.Isolation) == 1:
			return err
		case err != nil:
			return &unit.IsolationError{Isolation: rung, Refused: []unit.Refusal{{What: rung, Why: err.Error()}}}
		}
	}
	switch rung {
	case verify.IsolationService:
		if s.Remote.Named() {
			id.Far = &unit.Far{Remote: s.Remote}
		} else if err := j.l.nice(ctx, s); err != nil {
			return err
		}
		id.Manager, id.Unit = s.Manager, j.rec().Name+".service"
		u := &service{j: j}
		j.held = u
		err := u.launch(ctx, s, io)
		if err != nil {
			u.guardEnd()
			u.close()
			j.held = nil
		}
		return err
	case verify.IsolationScope:
		id.Manager, id.Unit = s.Manager, j.rec().Name+".scope"
		if _, err := j.l.client(ctx, here(s.Manager)); err != nil {
			return err
		}
	}
	io.meanwhile()
	switch {
	case s.Lifetime != unit.LifetimeOwner || !OwnerGone(j.rec()):
	case s.OwnerUnit != "":
		return &OwnerError{Unit: s.OwnerUnit, Why: "it has just ended"}
	default:
		return &OwnerError{PID: s.OwnerPID, Why: unix.ESRCH.Error()}
	}
	outlives := s.DetachAfter > 0 || s.Leftovers == unit.LeftoversKeep && s.Output == unit.OutputCapture
	if s.Lifetime == unit.LifetimeCall && !outlives {
		return j.launchKept(ctx, s, io)
	}
	return j.spawnKeeper(s, io)
}

// unfit says what a rung lacks that was asked for; empty when it has all.
func unfit(s *unit.Spec, rung string) string {
	if managed(rung) {
		return ""
	}
	switch {
	case len(s.Properties) > 0:
		return "a unit property was asked for, which needs a manager"
	case s.Slice != "", s.InheritSlice:
		return "a slice was asked for, which needs a manager"
	case s.JobMode != "":
		return "a job mode was asked for, which needs a manager"
	}
	return ""
}
