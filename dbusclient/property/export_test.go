package property

import "strings"

// The types of units that tests name as systemd does, besides the triggers.
const (
	Service = "service"
	Scope   = "scope"
)

// Types are all types of units that have tables here.
var Types = []string{Service, Scope, string(Timer), string(Path), string(Socket)}

// lookupIn is what finds a property of a type of units.
func lookupIn(unit string) func(name string) (*syntax, int) {
	switch unit {
	case Service:
		return lookup
	case Scope:
		return lookupScope
	}
	return Trigger(unit).lookup
}

// Signatures returns the D-Bus signatures that the tables allow for a name.
func Signatures(unit, name string) []string {
	s, _ := lookupIn(unit)(name)
	if s == nil {
		return nil
	}
	return strings.Split(s.sig, "|")
}

// Names returns every name of the tables, in their order.
func Names(unit string) []string {
	var all []string
	add := func(name string) bool {
		if s, _ := lookupIn(unit)(name); s != nil {
			all = append(all, name)
		}
		return true
	}
	switch unit {
	case Service, Scope:
		names(add)
	default:
		eachName(Trigger(unit).tables(), add)
	}
	return all
}

// Expectation returns what an error about the name's value says.
func Expectation(unit, name string) string {
	s, _ := lookupIn(unit)(name)
	return s.expectation()
}

// Since returns the systemd that introduced what is assigned, or 0.
func Since(unit, assignment string) int {
	name, value, _ := strings.Cut(assignment, "=")
	s, since := lookupIn(unit)(name)
	if s == nil {
		return 0
	}
	return max(since, s.since(value))
}

// ConvertIn is Convert for a type of units.
func ConvertIn(unit, assignment string) ([]Property, error) {
	name, value, _ := strings.Cut(assignment, "=")
	if unit == Service || unit == Scope {
		return Convert(name, value)
	}
	return ParseTrigger(Trigger(unit), assignment)
}

// SupportedIn is Supported for a type of units.
func SupportedIn(unit string, assignments []string, version int) error {
	switch unit {
	case Service:
		return Supported(assignments, version)
	case Scope:
		return SupportedScope(assignments, version)
	}
	return SupportedTrigger(Trigger(unit), assignments, version)
}

// Choices are the words that a name takes as its value.
func Choices(unit, name string) []string {
	s, _ := lookupIn(unit)(name)
	var all []string
	if s.boolean {
		all = append(all, "yes", "no")
	}
	for word := range s.choices {
		all = append(all, word)
	}
	return all
}
