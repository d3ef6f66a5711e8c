package property_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
)

// takes asks the manager whether a unit of that type can have the properties,
// and makes none: all are checked before one is applied, and in their order, so
// that it is the last one, which no version has, that is refused. The error is
// about one of them.
func (r *rig) takes(unit string, ps ...theirs) error {
	const last = "NoSuchProperty"
	err := r.call("StartTransientUnit", r.prefix+"never."+unit, "fail", append(ps, sendable([]property.Property{{Name: last, Value: dbus.MakeVariant(true)}})...), []aux{})
	switch {
	case err == nil:
		return fmt.Errorf("a unit was made")
	case strings.Contains(err.Error(), last):
		return nil
	}
	return err
}

// TestRigTakes holds of every type of unit that the manager takes each of its
// properties that has a case, and every word of the others, from the version on
// that the tables name.
func TestRigTakes(t *testing.T) {
	r := newRig(t)
	r.dir = t.TempDir()
	if r.mode == "--user" {
		t.Skip("user: some words are for the system manager alone, and the others are the same")
	}
	asked := 0
	for _, unit := range property.Types {
		var assignments []string
		for _, rc := range rigCases {
			if rc.unit == unit || rc.unit == property.Service && len(rc.assign) == 1 {
				assignments = append(assignments, rc.assign...)
			}
		}
		known := property.Names(unit)
		for _, name := range known {
			for _, word := range property.Choices(unit, name) {
				assignments = append(assignments, name+"="+word)
			}
		}
		for _, a := range assignments {
			if name, _, _ := strings.Cut(a, "="); !slices.Contains(known, name) {
				continue // one of services alone
			}
			since := property.Since(unit, a)
			switch name, value, _ := strings.Cut(a, "="); {
			case a == "CPUSchedulingPriority=7":
				continue // of a policy that has priorities
			case strings.HasPrefix(name, "Exec") && strings.HasPrefix(value, "|") && since > r.version:
				continue // refused when it is applied
			case unit == "socket" && strings.HasPrefix(name, "Exec") && value != "" && strings.ContainsAny(value[:1], ":+!|"):
				continue // refused here
			}
			ps, err := property.ConvertIn(unit, r.own(a, r.prefix))
			if err != nil {
				t.Errorf("%s of a %s: %v", a, unit, err)
				continue
			}
			asked++
			if err := r.takes(unit, sendable(ps)...); (err == nil) != (since <= r.version) {
				t.Errorf("%s of a %s is there since %d, and systemd %d says %v", a, unit, since, r.version, err)
			}
		}
	}
	if asked < 1000 {
		t.Errorf("only %d assignments were asked for", asked)
	}
	t.Logf("%d assignments were asked for", asked)
}
