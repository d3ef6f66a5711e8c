package property

import "strings"

// Signatures returns the D-Bus signatures that the table allows for a name.
func Signatures(name string) []string {
	s, _ := lookup(name)
	if s == nil {
		return nil
	}
	return strings.Split(s.sig, "|")
}

// Names returns every name of the tables, in their order.
func Names() []string {
	var all []string
	for name := range names {
		all = append(all, name)
	}
	return all
}

// Expectation returns what an error about the name's value says.
func Expectation(name string) string {
	s, _ := lookup(name)
	return s.expectation()
}
