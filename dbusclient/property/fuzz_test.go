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
	for _, rc := range rigCases {
		f.Add(rc.assign[0])
	}
	for _, table := range [][]converted{numbers, times, lists, structures} {
		for _, x := range table {
			f.Add(x.assignment)
		}
	}
	for _, w := range wrong {
		f.Add(w)
	}
	f.Fuzz(func(t *testing.T, assignment string) {
		name, value, _ := strings.Cut(assignment, "=")
		if _, err := property.Parse(assignment); err != nil && !ours(err) {
			t.Fatalf("Parse(%q): %T", assignment, err)
		}
		ps, err := property.Convert(name, value)
		if err != nil {
			if ps != nil || !ours(err) {
				t.Fatalf("Convert(%q): %v, %T", assignment, ps, err)
			}
			return
		}
		if len(ps) == 0 {
			t.Fatalf("Convert(%q) made nothing", assignment)
		}
		for _, p := range ps {
			if sig := string(p.Value.Signature()); !slices.Contains(property.Signatures(name), sig) {
				t.Fatalf("Convert(%q): %s is %s, the table says %v", assignment, p.Name, sig, property.Signatures(name))
			}
		}
		m := &dbus.Message{Kind: dbus.Call, Serial: 1, Path: "/", Member: "M", Body: []any{ps}}
		b, _, err := m.Append(nil)
		if err != nil {
			t.Fatalf("Convert(%q) cannot be sent: %v", assignment, err)
		}
		if _, err := godbus.DecodeMessage(bytes.NewReader(b)); err != nil {
			t.Fatalf("Convert(%q) cannot be read by another: %v", assignment, err)
		}
	})
}

func ours(err error) bool {
	var (
		syntax  *property.SyntaxError
		unknown *property.UnknownError
		value   *property.ValueError
		refused *property.NotAllowedError
	)
	return errors.As(err, &syntax) || errors.As(err, &unknown) || errors.As(err, &value) || errors.As(err, &refused)
}
