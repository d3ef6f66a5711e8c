package property

import (
	"strconv"
	"strings"
)

// syntax is a kind of value: how it is written, and what it becomes.
type syntax struct {
	// sig is the D-Bus signature of what parse makes; alternatives are
	// divided by "|".
	sig string
	// parse returns false for a value that name cannot have.
	parse func(s *syntax, name, value string) ([]Property, bool)
	// expected completes "expected …" in an error.
	expected string
	// words are the allowed ones where the value is one of a few. WORD@257 is
	// there since systemd 257, where the property is older.
	words string
	// later tells since which systemd there is a value that is no word, such as
	// one with a suffix; nil where each is as old as the property.
	later func(value string) int
	// boolean adds the words for yes and no to them.
	boolean bool
	// reset allows the empty value.
	reset bool
}

// entry is a property's name in unit files, its syntax, and the version of
// systemd that introduced it where that is later than 247.
type entry struct {
	name   string
	syntax *syntax
	since  int
}

// The tables are arrays of constants and addresses, laid out by the linker: a
// map of this size would be built at each start of the program.

// lookup returns the syntax of a property, or nil, and since when it exists.
// An element that is looked up is one of a handful in a process, so the search
// need not be clever.
func lookup(name string) (*syntax, int) {
	for _, t := range tables() {
		for i := range t {
			if t[i].name == name {
				return t[i].syntax, t[i].since
			}
		}
	}
	return conditionSyntax(name)
}

// names yields every name that lookup knows.
func names(yield func(string) bool) {
	eachName(tables(), yield)
}

// eachName yields the names of tables, and those of the conditions.
func eachName(tables [][]entry, yield func(string) bool) {
	for _, t := range tables {
		for i := range t {
			if !yield(t[i].name) {
				return
			}
		}
	}
	for i := range conditions {
		if !yield("Condition"+conditions[i].name) || !yield("Assert"+conditions[i].name) {
			return
		}
	}
}

func tables() [][]entry {
	return [][]entry{cgroupTable[:], execTable[:], sandboxTable[:], serviceTable[:], unitTable[:]}
}

func (s *syntax) expectation() string {
	if s.words == "" {
		return s.expected
	}
	var words []string
	if s.boolean {
		words = []string{"yes", "no"}
	}
	for word := range s.choices {
		words = append(words, word)
	}
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// choices yields the words, and since when each is there, or 0.
func (s *syntax) choices(yield func(word string, since int) bool) {
	for word := range strings.FieldsSeq(s.words) {
		word, version, _ := strings.Cut(word, "@")
		since, _ := strconv.Atoi(version)
		if !yield(word, since) {
			return
		}
	}
}

// since tells since which systemd there is such a value, or 0.
func (s *syntax) since(value string) int {
	for word, since := range s.choices {
		if word == value {
			return since
		}
	}
	if s.later != nil {
		return s.later(value)
	}
	return 0
}

// parseChoice accepts one of the syntax's words. The list ends with systemd
// 262: a word that a later one adds must be added here.
func parseChoice(s *syntax, name, value string) ([]Property, bool) {
	if s.boolean {
		if b, ok := Boolean(value); ok {
			// Every version has the plain words in its tables.
			return one(name, yesNo(b)), true
		}
	}
	for word := range s.choices {
		if word == value {
			return one(name, value), true
		}
	}
	return one(name, value), value == "" && s.reset
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Boolean reads the words of systemd for yes and no, in any case. ok is false for
// another.
func Boolean(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "1", "yes", "y", "true", "t", "on":
		return true, true
	case "0", "no", "n", "false", "f", "off":
		return false, true
	}
	return false, false
}

var booleanSyntax = syntax{sig: "b", parse: parseBoolean, expected: "yes or no"}

func parseBoolean(_ *syntax, name, value string) ([]Property, bool) {
	b, ok := Boolean(value)
	return one(name, b), ok
}

// parseBooleanEx reads a boolean that later got more values: since 257 those
// have a name of their own, and the first is kept for older clients. systemd-run
// takes either name for all values.
func parseBooleanEx(s *syntax, name, value string) ([]Property, bool) {
	name = strings.TrimSuffix(name, "Ex")
	if b, ok := Boolean(value); ok {
		return one(name, b), true
	}
	return parseChoice(&syntax{words: s.words}, name+"Ex", value)
}

var textSyntax = syntax{sig: "s", parse: parseText, expected: "a text"}

func parseText(_ *syntax, name, value string) ([]Property, bool) {
	return one(name, value), true
}

var pathSyntax = syntax{sig: "s", parse: parsePath, expected: "an absolute path, or nothing to reset it"}

func parsePath(_ *syntax, name, value string) ([]Property, bool) {
	return one(name, value), value == "" || value[0] == '/'
}

var optionalPathSyntax = syntax{sig: "s", parse: parseOptionalPath, expected: `an absolute path, with "-" before it where it may be missing`}

// parseOptionalPath accepts "-/path", and "~" for the home directory.
func parseOptionalPath(_ *syntax, name, value string) ([]Property, bool) {
	p := strings.TrimPrefix(value, "-")
	return one(name, value), value == "" || p == "~" || strings.HasPrefix(p, "/")
}
