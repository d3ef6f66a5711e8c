package cgroup

import (
	"errors"
	"fmt"
	"slices"

	"github.com/unitward/unitward/unit"
)

// Probe is what isolation cgroup can do here.
type Probe struct {
	// Parent is where units would be.
	Parent string `json:"parent"`
	Place  Place  `json:"place"`
	// Refused says what was tried before it, and why not.
	Refused []unit.Refusal `json:"refused,omitempty"`
	// Kill is true when the kernel has cgroup.kill (Linux 5.14); Freeze, when
	// it has cgroup.freeze (Linux 5.2).
	Kill   bool `json:"kill"`
	Freeze bool `json:"freeze"`
	// Limits says of each limit whether it would be applied; Found says why
	// not, and is empty when it would.
	Limits []unit.Limit `json:"limits"`
}

// Probe makes the cgroup of a unit, looks at it and removes it. Nothing is
// started in it, nothing is killed and no controller is enabled. The error is
// *unit.IsolationError when isolation cgroup does not work here.
func (p *Parent) Probe(name string) (Probe, error) {
	r := Probe{Parent: p.Path, Place: p.Place, Refused: p.Refused}
	u, err := p.Create(name)
	if err != nil {
		var e *unit.IsolationError
		if errors.As(err, &e) {
			e.Refused = slices.Concat(p.Refused, e.Refused)
		}
		return r, err
	}
	defer u.Close()
	r.Kill, r.Freeze = u.kill != nil, u.freezer != nil
	for _, s := range (Limits{MemoryMax: 1, TasksMax: 1, CPUQuota: 1}).settings() {
		why := u.enable(s.controller, false)
		r.Limits = append(r.Limits, unit.Limit{Name: s.name, Applied: why == "", Found: why})
	}
	if err := u.rmdir(); err != nil {
		return r, fmt.Errorf("cannot remove the cgroup %s: %w", u.Path, err)
	}
	p.tidy()
	return r, nil
}
