package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// stopsAtATime is how many jobs of an owner are being stopped: most of a stop
// is to wait, but each holds descriptors, and a manager is one thread.
const stopsAtATime = 16

// ownerStop is what a stop of all jobs of an owner came to.
type ownerStop struct {
	Owner string `json:"owner"`
	// Stopped are the jobs whose end is proven, also those that had ended by
	// themselves.
	Stopped []string `json:"stopped"`
	// Asked are those that are to end, of which nobody waits for the end; nil
	// where it is waited for.
	Asked []string `json:"asked,omitempty"`
	// Unconfirmed are the others.
	Unconfirmed []unconfirmed `json:"unconfirmed"`
	Confirmed   bool          `json:"confirmed"`
}

// unconfirmed is a job whose end is not proven.
type unconfirmed struct {
	Name   string       `json:"name"`
	Report *unit.Report `json:"report,omitempty"`
	Error  *errorBody   `json:"error,omitempty"`
}

// stopOwner ends every job of an owner, several at a time. What cannot be
// proven of one is no reason to leave another.
func (a *app) stopOwner(owner string, grace *time.Duration, noWait bool) error {
	ctx := context.Background()
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	names, bad, err := owned(ctx, l, owner)
	if err != nil {
		return err
	}
	results := make([]unconfirmed, len(names))
	reports := make([]unit.Report, len(names))
	next := make(chan int)
	var stopping sync.WaitGroup
	for range min(stopsAtATime, len(names)) {
		stopping.Go(func() {
			for i := range next {
				reports[i], results[i] = stopOwned(ctx, l, names[i], owner, grace, noWait)
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	stopping.Wait()
	all := ownerStop{Owner: owner, Stopped: []string{}, Unconfirmed: bad}
	for i, r := range results {
		switch {
		case r.Name == "": // it went, or became another's, meanwhile
		case reports[i].Confirmed:
			all.Stopped = append(all.Stopped, r.Name)
		case noWait && asked(reports[i]) && r.Error == nil:
			all.Asked = append(all.Asked, r.Name)
		default:
			all.Unconfirmed = append(all.Unconfirmed, r)
		}
	}
	all.Confirmed = len(all.Unconfirmed) == 0 && len(all.Asked) == 0
	return a.tellOwnerStop(&all, reports)
}

// owned lists the jobs of an owner that are not settled. bad are those whose
// record cannot be read: each may be one of them.
func owned(ctx context.Context, l *launch.Launcher, owner string) (names []string, bad []unconfirmed, err error) {
	found, err := l.Names()
	if err != nil {
		return nil, nil, err
	}
	bad = []unconfirmed{}
	for _, name := range found {
		// Not looked at here: the stop does that.
		mine := false
		_, err := l.Glance(ctx, name, func(rec *unit.Record) bool {
			mine = rec.Owner == owner && rec.Sealed == nil
			return false
		})
		var gone *unit.NotFoundError
		switch {
		case errors.As(err, &gone):
		case err != nil:
			body := objectOf(err).Error
			bad = append(bad, unconfirmed{Name: name, Error: &body})
		case mine:
			names = append(names, name)
		}
	}
	return names, bad, nil
}

// stopOwned ends one job of an owner. The result has no name where there is
// none of the owner's any more.
func stopOwned(ctx context.Context, l *launch.Launcher, name, owner string, asked *time.Duration, noWait bool) (unit.Report, unconfirmed) {
	failed := func(err error) unconfirmed {
		body := objectOf(err).Error
		return unconfirmed{Name: name, Error: &body}
	}
	j, err := l.Open(ctx, name)
	var gone *unit.NotFoundError
	switch {
	case errors.As(err, &gone):
		return unit.Report{}, unconfirmed{}
	case err != nil:
		return unit.Report{}, failed(err)
	}
	defer j.Close()
	if j.Record().Owner != owner {
		return unit.Report{}, unconfirmed{}
	}
	var rep unit.Report
	if noWait {
		rep, err = j.Entrust(ctx, asked)
	} else {
		grace := j.Record().Grace
		if asked != nil {
			grace = *asked
		}
		rep, err = j.Stop(ctx, grace)
	}
	result := unconfirmed{Name: name}
	if err != nil {
		result = failed(err)
	}
	if looked(rep) {
		result.Report = &rep
	}
	return rep, result
}

// tellOwnerStop says what became of the jobs of an owner.
func (a *app) tellOwnerStop(all *ownerStop, reports []unit.Report) error {
	if a.json {
		if err := printJSON(a.Out, all); err != nil {
			return err
		}
	} else if err := a.printOwnerStop(all, reports); err != nil {
		return err
	}
	if len(all.Unconfirmed) > 0 {
		return &statusError{exitUnconfirmed}
	}
	return nil
}

func (a *app) printOwnerStop(all *ownerStop, reports []unit.Report) error {
	for _, rep := range reports {
		if !rep.Confirmed {
			continue
		}
		if err := a.printStop(rep, false); err != nil {
			return err
		}
	}
	for _, name := range all.Asked {
		if a.quiet {
			break
		}
		if _, err := fmt.Fprintf(a.Out, "%s: asked to stop\n", name); err != nil {
			return err
		}
	}
	var left []string
	for _, u := range all.Unconfirmed {
		left = append(left, u.Name)
		if u.Report != nil {
			a.explain(*u.Report, false)
		}
		if u.Error != nil {
			printLines(a.Err, u.Error.Message, u.Error.Hints)
		}
	}
	if len(left) > 0 {
		fmt.Fprintf(a.Err, "unitward: cannot confirm the end of %d of %d jobs of owner %s: %s\n",
			len(left), len(left)+len(all.Stopped)+len(all.Asked), quote(all.Owner), strings.Join(left, " "))
	}
	return nil
}
