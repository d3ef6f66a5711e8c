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
	for _, a := range assignments {
		name, _, _ := strings.Cut(a, "=")
		if _, since := t.lookup(name); version != 0 && since > version {
			return &VersionError{Name: name, Since: since, Have: version}
		}
	}
	return nil
}

// lookup returns the syntax of a trigger's property, or nil, and since when it
// exists. A socket has the processes of its commands, too.
func (t Trigger) lookup(name string) (*syntax, int) {
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
	return one("Listen", []textPair{{strings.TrimPrefix(name, "Listen"), value}}), !strings.ContainsAny(value, whitespace)
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

var protocolSyntax = syntax{sig: "i", parse: parseProtocol, expected: "udplite, sctp or mptcp"}

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
