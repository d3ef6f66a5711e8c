package property

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/unitward/unitward/unit"
)

// Trigger is a type of unit that starts another one.
type Trigger string

// The triggers. Each is the suffix of its units.
const (
	Timer  Trigger = "timer"
	Path   Trigger = "path"
	Socket Trigger = "socket"
)

// TriggerError says that a trigger has no such property. It matches
// unit.ErrUsage.
type TriggerError struct {
	Trigger Trigger
	Name    string
}

func (e *TriggerError) Error() string {
	return fmt.Sprintf("cannot set property %s: a %s has no such property", printable(e.Name), e.Trigger)
}

// Hint proposes the way out.
func (e *TriggerError) Hint() []string {
	return []string{fmt.Sprintf("known are those of systemd.%s(5) and systemd.unit(5); the job's own go after -p", e.Trigger)}
}

// Is makes the error match unit.ErrUsage.
func (e *TriggerError) Is(target error) bool { return target == unit.ErrUsage }

// ParseTrigger is Parse for a property of a timer, path or socket. The errors
// are *SyntaxError, *TriggerError and *ValueError.
func ParseTrigger(t Trigger, assignment string) ([]Property, error) {
	name, value, ok := strings.Cut(assignment, "=")
	if !ok || name == "" {
		return nil, &SyntaxError{Assignment: assignment}
	}
	s, _ := t.lookup(name)
	if s == nil {
		return nil, &TriggerError{Trigger: t, Name: name}
	}
	return s.convert(name, value)
}

// SupportedTrigger is Supported for properties of a trigger.
func SupportedTrigger(t Trigger, assignments []string, version int) error {
	return supported(assignments, version, t.lookup)
}

// lookup returns the syntax of a trigger's property, or nil, and since when it
// exists. A socket has the processes of its commands, too, but they have no cgroup
// of their own, and systemd-oomd does not look at them.
func (t Trigger) lookup(name string) (*syntax, int) {
	switch name {
	case "ManagedOOMMemoryPressure", "ManagedOOMMemoryPressureDurationSec", "ManagedOOMMemoryPressureLimit", "ManagedOOMSwap", "OOMRules",
		"Delegate", "DelegateSubgroup", "CoredumpReceive":
		return nil, 0
	}
	for _, table := range t.tables() {
		for i := range table {
			if table[i].name == name {
				return table[i].syntax, table[i].since
			}
		}
	}
	return conditionSyntax(name)
}

// tables have what a trigger can be given.
func (t Trigger) tables() [][]entry {
	switch t {
	case Timer:
		return [][]entry{timerTable[:], unitTable[:]}
	case Path:
		return [][]entry{pathTable[:], unitTable[:]}
	case Socket:
		return [][]entry{socketTable[:], unitTable[:], cgroupTable[:], execTable[:], sandboxTable[:]}
	}
	return [][]entry{unitTable[:]}
}

// namedSpan is a span with what it counts from.
type namedSpan struct {
	Base string
	USec uint64
}

var monotonicSyntax = syntax{sig: "a(st)", parse: parseMonotonic, expected: timespanExpected + ", or nothing to reset the list"}

func parseMonotonic(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one("TimersMonotonic", []namedSpan{}), true
	}
	n, ok := usec(value)
	return one("TimersMonotonic", []namedSpan{{name, n}}), ok
}

// The manager has the words of systemd.time(7), and refuses what is none.
var calendarSyntax = syntax{sig: "a(ss)", parse: parseCalendar, expected: "a calendar event of systemd.time(7), such as daily or Mon *-*-* 04:00"}

func parseCalendar(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one("TimersCalendar", []textPair{}), true
	}
	return one("TimersCalendar", []textPair{{name, value}}), strings.TrimSpace(value) != ""
}

var watchedSyntax = syntax{sig: "a(ss)", parse: parseWatched, expected: "an absolute path, or nothing to reset the list"}

func parseWatched(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one("Paths", []textPair{}), true
	}
	return one("Paths", []textPair{{name, value}}), value[0] == '/'
}

var listenSyntax = syntax{sig: "a(ss)", parse: parseListen, expected: "an address of systemd.socket(5), such as /run/x.sock, 8080 or 127.0.0.1:8080, or nothing to reset the list"}

func parseListen(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one("Listen", []textPair{}), true
	}
	// A path, an abstract name and what is told apart by words may have blanks within.
	words := name == "ListenNetlink" || value[0] == '/' || value[0] == '@'
	ok := !strings.ContainsAny(value, whitespace) || words && !strings.Contains(value, "\n") && strings.Trim(value, whitespace) == value
	return one("Listen", []textPair{{strings.TrimPrefix(name, "Listen"), value}}), ok
}

var socketCommandSyntax = syntax{
	sig: "a(sasb)", parse: parseSocketCommand,
	expected: `a command line, with "-" or "@" before it, or nothing to reset the list`,
}

// parseSocketCommand refuses what only services have a name for on the bus.
func parseSocketCommand(s *syntax, name, value string) ([]Property, bool) {
	ps, ok := parseCommand(s, name, value)
	return ps, ok && ps[0].Name == name
}

var smackInSyntax = syntax{sig: "s", parse: parseSmackIn, expected: textSyntax.expected}

// parseSmackIn sends the name that every manager takes, with a small letter.
func parseSmackIn(_ *syntax, _, value string) ([]Property, bool) {
	return one("SmackLabelIPin", value), true
}

var xattrSyntax = syntax{sig: "a(ss)", parse: parseXAttr, expected: "extended attributes, each as NAME=VALUE such as user.role=web, or nothing to reset the list"}

func parseXAttr(_ *syntax, name, value string) ([]Property, bool) {
	ws, ok := words(value, unquote)
	all := []textPair{}
	for _, w := range ws {
		attribute, text, assigned := strings.Cut(w, "=")
		ok = ok && assigned && attribute != ""
		all = append(all, textPair{attribute, text})
	}
	return one(name, all), ok
}

var int64Syntax = syntax{sig: "x", parse: parseInt64, expected: "a whole number"}

func parseInt64(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := parseSigned(value, 64)
	return one(name, n), ok
}

var sizeSyntax = syntax{sig: "t", parse: parseSize, expected: "a size such as 64K"}

func parseSize(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := size(value, 1024)
	return one(name, n), ok
}

var tosSyntax = syntax{sig: "i", parse: parseTOS, expected: "low-delay, throughput, reliability, low-cost or a number from 0 to 255"}

// parseTOS: netinet/ip.h.
func parseTOS(_ *syntax, name, value string) ([]Property, bool) {
	switch value {
	case "low-delay":
		return one(name, int32(0x10)), true
	case "throughput":
		return one(name, int32(0x08)), true
	case "reliability":
		return one(name, int32(0x04)), true
	case "low-cost":
		return one(name, int32(0x02)), true
	}
	n, err := strconv.ParseUint(value, 10, 8)
	return one(name, int32(n)), err == nil
}

var protocolSyntax = syntax{sig: "i", parse: parseProtocol, later: protocolSince, expected: "udplite, sctp or mptcp"}

func protocolSince(value string) int {
	if value == "mptcp" {
		return 257
	}
	return 0
}

// parseProtocol: linux/in.h.
func parseProtocol(_ *syntax, name, value string) ([]Property, bool) {
	switch value {
	case "udplite":
		return one(name, int32(136)), true
	case "sctp":
		return one(name, int32(132)), true
	case "mptcp":
		return one(name, int32(262)), true
	}
	return nil, false
}
