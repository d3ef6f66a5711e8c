package property

import (
	"math"
	"strconv"
	"strings"
)

const whitespace = " \t\n\r"

// parseUnsigned reads a number as systemd does: white space before it, a plus
// sign, and the prefixes 0x, 0o, 0b and 0 for octal are allowed.
func parseUnsigned(s string, bits int) (uint64, bool) {
	s = strings.TrimPrefix(strings.TrimLeft(s, whitespace), "+")
	if strings.IndexByte(s, '_') >= 0 {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 0, bits)
	return n, err == nil
}

func parseSigned(s string, bits int) (int64, bool) {
	s = strings.TrimLeft(s, whitespace)
	if strings.IndexByte(s, '_') >= 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 0, bits)
	return n, err == nil
}

var int32Syntax = syntax{sig: "i", parse: parseInt32, expected: "a whole number"}

func parseInt32(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := parseSigned(value, 32)
	return one(name, int32(n)), ok
}

var uint32Syntax = syntax{sig: "u", parse: parseUint32, expected: "a whole number that is not negative"}

func parseUint32(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := parseUnsigned(value, 32)
	return one(name, uint32(n)), ok
}

var niceSyntax = syntax{sig: "i", parse: parseNice, expected: "a number from -20 to 19"}

func parseNice(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := parseSigned(value, 32)
	return one(name, int32(n)), ok && n >= -20 && n <= 19
}

var oomScoreSyntax = syntax{sig: "i", parse: parseOOMScore, expected: "a number from -1000 to 1000"}

func parseOOMScore(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := parseSigned(value, 32)
	return one(name, int32(n)), ok && n >= -1000 && n <= 1000
}

var ioPrioritySyntax = syntax{sig: "i", parse: parseIOPriority, expected: "a number from 0 (highest) to 7"}

func parseIOPriority(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := parseSigned(value, 32)
	return one(name, int32(n)), ok && n >= 0 && n <= 7
}

var modeSyntax = syntax{sig: "u", parse: parseMode, expected: "an octal mode from 0000 to 7777"}

func parseMode(_ *syntax, name, value string) ([]Property, bool) {
	n, err := strconv.ParseUint(strings.TrimLeft(value, whitespace), 8, 32)
	return one(name, uint32(n)), err == nil && n <= 0o7777
}

var exitCodeSyntax = syntax{sig: "i", parse: parseExitCode, expected: "an exit status from 0 to 255, or nothing for the service's own"}

func parseExitCode(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, int32(-1)), true
	}
	n, ok := parseUnsigned(value, 8)
	return one(name, int32(n)), ok
}

var weightSyntax = syntax{sig: "t", parse: parseWeight, expected: "a weight from 1 to 10000, or nothing for the default"}

// unset is systemd's "no value" of a weight or limit.
const unset = uint64(math.MaxUint64)

func parseWeight(_ *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		return one(name, unset), true
	}
	n, ok := parseUnsigned(value, 64)
	return one(name, n), ok && n >= 1 && n <= 10000
}

// The weight of CPU time can be idle, 0 on the bus.
var cpuWeightSyntax = syntax{sig: "t", parse: parseCPUWeight, later: cpuWeightSince, expected: "a weight from 1 to 10000, idle, or nothing for the default"}

func cpuWeightSince(value string) int {
	if value == "idle" {
		return 252
	}
	return 0
}

func parseCPUWeight(s *syntax, name, value string) ([]Property, bool) {
	if value == "idle" {
		return one(name, uint64(0)), true
	}
	return parseWeight(s, name, value)
}

// named reads the name of a number: its index in the words, or the number
// itself up to most.
func named(words, value string, most int64) (int32, bool) {
	i := int32(0)
	for word := range strings.FieldsSeq(words) {
		if word == value {
			return i, true
		}
		i++
	}
	n, ok := parseSigned(value, 32)
	return int32(n), ok && n >= 0 && n <= most
}

const (
	levelWords    = "emerg alert crit err warning notice info debug"
	facilityWords = "kern user mail daemon auth syslog lpr news uucp cron authpriv ftp"
	ioClassWords  = "none realtime best-effort idle"
	policyWords   = "other fifo rr batch"
	numaWords     = "default preferred bind interleave local preferred-many weighted-interleave"
)

var levelSyntax = syntax{sig: "i", parse: parseLevel, expected: "a log level: " + levelWords}

func parseLevel(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := named(levelWords, value, 7)
	return one(name, n), ok
}

var facilitySyntax = syntax{sig: "i", parse: parseFacility, expected: "a syslog facility: " + facilityWords + " local0 to local7"}

func parseFacility(_ *syntax, name, value string) ([]Property, bool) {
	if rest, ok := strings.CutPrefix(value, "local"); ok {
		n, ok := parseUnsigned(rest, 8)
		return one(name, int32(16+n)), ok && n <= 7
	}
	n, ok := named(facilityWords, value, 127)
	return one(name, n), ok
}

var ioClassSyntax = syntax{sig: "i", parse: parseIOClass, expected: "an I/O class: " + ioClassWords}

func parseIOClass(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := named(ioClassWords, value, 7)
	return one(name, n), ok
}

var policySyntax = syntax{sig: "i", parse: parsePolicy, later: policySince, expected: "a scheduling policy: " + policyWords + " idle ext"}

func policySince(value string) int {
	if value == "ext" {
		return 258
	}
	return 0
}

func parsePolicy(_ *syntax, name, value string) ([]Property, bool) {
	switch value {
	case "idle": // SCHED_IDLE is 5; 4 was never used
		return one(name, int32(5)), true
	case "ext": // Linux 6.12
		return one(name, int32(7)), true
	}
	n, ok := named(policyWords, value, math.MaxInt32)
	return one(name, n), ok
}

var numaPolicySyntax = syntax{sig: "i", parse: parseNUMAPolicy, later: numaPolicySince, expected: "a NUMA policy: " + numaWords}

func numaPolicySince(value string) int {
	if value == "preferred-many" || value == "weighted-interleave" {
		return 262
	}
	return 0
}

func parseNUMAPolicy(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := named(numaWords, value, -1)
	return one(name, n), ok
}
