// Package property turns NAME=VALUE in the syntax of unit files, as
// `systemd-run -p` takes it, into the typed properties that StartTransientUnit
// wants for a service. It does no I/O: whether this manager knows a property
// is its own to say, and Supported tells beforehand where that is known.
//
// Two things differ from a unit file, in unitward as in systemd-run: no
// %-specifier is expanded, and a later assignment of a list adds to it, while
// an empty one resets it.
package property

import (
	"strings"
	"unicode/utf8"

	"github.com/unitward/unitward/dbusclient/dbus"
)

// Property is one element of StartTransientUnit's a(sv). The two fields and
// their order are its signature.
type Property struct {
	Name  string
	Value dbus.Variant
}

// Parse turns one NAME=VALUE of a user into the properties it stands for:
// mostly one, two for a Limit… (hard and soft), none for what unitward sets to
// that very value. Besides what Convert returns,
// it returns a *SyntaxError where there is no "=", and a *NotAllowedError for
// a property that unitward itself must own.
func Parse(assignment string) ([]Property, error) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || name == "" {
		return nil, &SyntaxError{Assignment: assignment}
	}
	if e := Reserved(name); e != nil {
		if isFixed(name, value) {
			return nil, nil
		}
		return nil, e
	}
	return Convert(name, value)
}

// ParseAll is Parse over a list, in its order; the first error ends it. The
// order matters to the manager: the last of two values holds, an empty list
// value drops the earlier ones.
func ParseAll(assignments []string) ([]Property, error) {
	var all []Property
	for _, a := range assignments {
		ps, err := Parse(a)
		if err != nil {
			return nil, err
		}
		all = append(all, ps...)
	}
	return all, nil
}

// Convert is Parse without the question whether a user may set it: for
// unitward's own properties. It returns an *UnknownError for a name that no
// service of systemd 247 to 262 has, and a *ValueError for a value it cannot
// have.
func Convert(name, value string) ([]Property, error) {
	s, _ := lookup(name)
	if s == nil {
		return nil, &UnknownError{Name: name, Similar: similar(name)}
	}
	return s.convert(name, value)
}

// convert parses a value. The error is a *ValueError.
func (s *syntax) convert(name, value string) ([]Property, error) {
	// What D-Bus cannot carry would cost the connection, not just the call.
	if !text(value) {
		return nil, &ValueError{Name: name, Value: value, Expected: "valid UTF-8 without NUL"}
	}
	ps, ok := s.parse(s, name, value)
	if !ok {
		return nil, &ValueError{Name: name, Value: value, Expected: s.expectation()}
	}
	return ps, nil
}

// Executes reports whether a property has to do with how the process is made
// and executed (systemd.exec(5)), so that it can keep it from being executed.
// It takes the names of unit files.
func Executes(name string) bool {
	for _, t := range [][]entry{execTable[:], sandboxTable[:]} {
		for i := range t {
			if t[i].name == name {
				return true
			}
		}
	}
	return false
}

// Last returns the value of the last property of that D-Bus name: the one
// that holds.
func Last(ps []Property, name string) (dbus.Variant, bool) {
	for i := len(ps) - 1; i >= 0; i-- {
		if ps[i].Name == name {
			return ps[i].Value, true
		}
	}
	return dbus.Variant{}, false
}

func text(s string) bool {
	return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
}

func one[T any](name string, value T) []Property {
	return []Property{{Name: name, Value: dbus.MakeVariant(value)}}
}
