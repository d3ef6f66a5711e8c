package property

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

const (
	usecPerSec = 1_000_000
	// A year is 365.25 days and a month its twelfth, as in systemd.time(7).
	secPerMonth = 2_629_800
	secPerYear  = 31_557_600
)

// timespan reads a span in the syntax of systemd.time(7), such as "5min 20s",
// 500ms or infinity. The result is in units of which a second has perSec; a
// number without a unit counts bare of them.
func timespan(s string, perSec, bare uint64) (uint64, bool) {
	s = strings.TrimLeft(s, whitespace)
	if rest, ok := strings.CutPrefix(s, "infinity"); ok {
		return math.MaxUint64, strings.Trim(rest, whitespace) == ""
	}
	var sum uint64
	for some := false; ; some = true {
		s = strings.TrimLeft(s, whitespace)
		if s == "" {
			return sum, some
		}
		s = strings.TrimPrefix(s, "+")
		whole, fraction, rest, ok := number(s)
		if !ok {
			return 0, false
		}
		factor, after := suffix(strings.TrimLeft(rest, whitespace), perSec, bare)
		if after == rest && after != "" { // 12.34.56, but not "12.34 .56"
			return 0, false
		}
		s = after
		hi, n := bits.Mul64(whole, factor)
		if hi != 0 || whole >= math.MaxUint64/factor {
			return 0, false // a little before it is too much, as systemd has it
		}
		n, carry := bits.Add64(n, fractionOf(fraction, factor), 0)
		if carry != 0 {
			return 0, false
		}
		if sum, carry = bits.Add64(sum, n, 0); carry != 0 || sum == math.MaxUint64 {
			return 0, false
		}
	}
}

// number reads digits and a fraction, either of which may be missing, but
// after a point there must be a digit.
func number(s string) (whole uint64, fraction, rest string, ok bool) {
	n := digits(s)
	if n > 0 {
		var err error
		if whole, err = strconv.ParseUint(s[:n], 10, 63); err != nil {
			return 0, "", s, false
		}
	}
	s = s[n:]
	if s != "" && s[0] == '.' {
		f := digits(s[1:])
		if f == 0 {
			return 0, "", s, false
		}
		return whole, s[1 : 1+f], s[1+f:], true
	}
	return whole, "", s, n > 0
}

// fractionOf adds the digits one by one, each cut to the unit, as systemd
// does: 0.5us is 0.
func fractionOf(fraction string, factor uint64) uint64 {
	var sum uint64
	for i := range len(fraction) {
		factor /= 10
		sum += uint64(fraction[i]-'0') * factor
	}
	return sum
}

// suffix returns the unit that s starts with and what comes after it. The
// order matters: "m" is a minute, unless it begins one of the others.
func suffix(s string, perSec, bare uint64) (factor uint64, rest string) {
	for _, u := range [...]struct {
		seconds uint64
		names   string
	}{
		{1, "seconds second sec s"},
		{60, "minutes minute min"},
		{secPerMonth, "months month M"},
		{0, "msec ms"},
		{60, "m"},
		{3600, "hours hour hr h"},
		{86400, "days day d"},
		{7 * 86400, "weeks week w"},
		{secPerYear, "years year y"},
	} {
		for name := range strings.FieldsSeq(u.names) {
			if rest, ok := strings.CutPrefix(s, name); ok {
				if u.seconds == 0 {
					return perSec / 1000, rest
				}
				return u.seconds * perSec, rest
			}
		}
	}
	for name := range strings.FieldsSeq("usec us µs μs") { // U+00B5, U+03BC
		if rest, ok := strings.CutPrefix(s, name); ok {
			return perSec / 1_000_000, rest
		}
	}
	if perSec > 1_000_000 {
		for name := range strings.FieldsSeq("nsec ns") {
			if rest, ok := strings.CutPrefix(s, name); ok {
				return 1, rest
			}
		}
	}
	return bare, s
}

// usec reads a span whose bare numbers are seconds.
func usec(s string) (uint64, bool) { return timespan(s, usecPerSec, usecPerSec) }

const timespanExpected = "a time span such as 5min 20s, 500ms or infinity"

var spanSyntax = syntax{sig: "t", parse: parseSpan, expected: timespanExpected}

func parseSpan(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := usec(value)
	return one(onBus(name), n), ok
}

// In spanOrNoneSyntax the empty value means the default.
var spanOrNoneSyntax = syntax{sig: "t", parse: parseSpanOrNone, expected: timespanExpected + ", or nothing for the default"}

func parseSpanOrNone(s *syntax, name, value string) ([]Property, bool) {
	if value == "" {
		value = "infinity"
	}
	return parseSpan(s, name, value)
}

// onBus is the name of a …Sec= setting on the bus, where it counts
// microseconds.
func onBus(name string) string {
	return strings.TrimSuffix(name, "Sec") + "USec"
}

// TimeoutSec= is short for two settings.
var timeoutSyntax = syntax{sig: "t", parse: parseTimeout, expected: timespanExpected}

func parseTimeout(_ *syntax, _, value string) ([]Property, bool) {
	n, ok := usec(value)
	return append(one("TimeoutStartUSec", n), one("TimeoutStopUSec", n)...), ok
}

// TimerSlackNSec= counts bare numbers as nanoseconds.
var nsecSyntax = syntax{sig: "t", parse: parseNsec, expected: "a time span such as 50us or 100ns"}

func parseNsec(_ *syntax, name, value string) ([]Property, bool) {
	n, ok := timespan(value, 1_000_000_000, 1)
	return one(name, n), ok
}
