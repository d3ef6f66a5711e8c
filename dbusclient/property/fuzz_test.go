package property_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	godbus "github.com/godbus/dbus/v5"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
)

// FuzzParse holds that no input panics, that each is accepted or refused by
// one of our errors, and that what is accepted has the table's signature and
// can be sent.
func FuzzParse(f *testing.F) {
	for i, unit := range property.Types {
		for _, rc := range rigCases {
			if rc.unit == unit {
				f.Add(i, rc.assign[0])
			}
		}
	}
	for _, table := range [][]converted{numbers, times, lists, structures} {
		for _, x := range table {
			f.Add(0, x.assignment)
		}
	}
	for i, unit := range property.Types {
		for _, x := range triggered[unit] {
			f.Add(i, x.assignment)
		}
		for _, w := range wrong[unit] {
			f.Add(i, w)
		}
	}
	f.Fuzz(func(t *testing.T, i int, assignment string) {
		unit := property.Types[int(uint(i)%uint(len(property.Types)))]
		name, _, _ := strings.Cut(assignment, "=")
		if _, err := property.Parse(assignment); err != nil && !ours(err) {
			t.Fatalf("Parse(%q): %T", assignment, err)
		}
		if err := property.SupportedIn(unit, []string{assignment}, 247); err != nil && !ours(err) {
			t.Fatalf("%q of a %s and systemd 247: %T", assignment, unit, err)
		}
		ps, err := property.ConvertIn(unit, assignment)
		if err != nil {
			if ps != nil || !ours(err) {
				t.Fatalf("%q of a %s: %v, %T", assignment, unit, ps, err)
			}
			return
		}
		if len(ps) == 0 {
			t.Fatalf("%q of a %s made nothing", assignment, unit)
		}
		if unit == property.Scope {
			unit = property.Service // what it is converted as
		}
		for _, p := range ps {
			if sig := string(p.Value.Signature()); !slices.Contains(property.Signatures(unit, name), sig) {
				t.Fatalf("%q of a %s: %s is %s, the table says %v", assignment, unit, p.Name, sig, property.Signatures(unit, name))
			}
		}
		m := &dbus.Message{Kind: dbus.Call, Serial: 1, Path: "/", Member: "M", Body: []any{ps}}
		b, _, err := m.Append(nil)
		if err != nil {
			t.Fatalf("%q of a %s cannot be sent: %v", assignment, unit, err)
		}
		if _, err := godbus.DecodeMessage(bytes.NewReader(b)); err != nil {
			t.Fatalf("%q of a %s cannot be read by another: %v", assignment, unit, err)
		}
	})
}

func ours(err error) bool {
	var (
		syntax  *property.SyntaxError
		unknown *property.UnknownError
		value   *property.ValueError
		refused *property.NotAllowedError
		trigger *property.TriggerError
		version *property.VersionError
	)
	return errors.As(err, &syntax) || errors.As(err, &unknown) || errors.As(err, &value) || errors.As(err, &refused) ||
		errors.As(err, &trigger) || errors.As(err, &version)
}
