package property

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// size reads a size such as 512M, 1.5G or "1G 512M" in steps of base (1024
// for memory, 1000 for I/O). As in systemd the suffixes are capital, and
// several parts stand in falling order.
func size(s string, base uint64) (uint64, bool) {
	const suffixes = "EPTGMKB" // after B a number without one may follow
	var sum uint64
	start := 0
	for {
		s = strings.TrimPrefix(strings.TrimLeft(s, whitespace), "+")
		whole, fraction, rest, ok := decimal(s)
		if !ok || start > len(suffixes) {
			return 0, false
		}
		s = strings.TrimLeft(rest, whitespace)
		i := len(suffixes) // no suffix: bytes
		if s != "" {
			if at := strings.IndexByte(suffixes[start:], s[0]); at >= 0 {
				i = start + at
				s = s[1:]
			}
		}
		factor := uint64(1)
		for range len(suffixes) - 1 - i {
			factor *= base
		}
		hi, n := bits.Mul64(whole, factor)
		if hi != 0 {
			return 0, false
		}
		n, carry := bits.Add64(n, uint64(fraction*float64(factor)), 0)
		if carry != 0 {
			return 0, false
		}
		if sum, carry = bits.Add64(sum, n, 0); carry != 0 {
			return 0, false
		}
		start = i + 1
		if s == "" {
			return sum, true
		}
	}
}

// decimal reads digits, a point and more digits. The fraction may be missing
// after the point. It is a double, digit by digit, as systemd has it: 0.3 of a
// thousand can be 299.
func decimal(s string) (whole uint64, fraction float64, rest string, ok bool) {
	n := digits(s)
	whole, err := strconv.ParseUint(s[:n], 10, 64)
	if err != nil {
		return 0, 0, s, false
	}
	s = s[n:]
	if s == "" || s[0] != '.' {
		return whole, 0, s, true
	}
	s = s[1:]
	if n = digits(s); n > 0 {
		parts, err := strconv.ParseUint(s[:n], 10, 64)
		if err != nil {
			return 0, 0, s, false
		}
		fraction = float64(parts)
		for range n {
			fraction /= 10
		}
	}
	return whole, fraction, s[n:], true
}

func digits(s string) int {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

// permyriad reads a share such as 50%, 12.5%, 125‰ or 1250‱ in units of a
// hundredth of a percent. It is not bounded by 100%.
func permyriad(s string) (uint64, bool) {
	places := 2
	body, ok := strings.CutSuffix(s, "%")
	if !ok {
		places = 1
		if body, ok = strings.CutSuffix(s, "‰"); !ok {
			places = 0
			if body, ok = strings.CutSuffix(s, "‱"); !ok {
				return 0, false
			}
		}
	}
	whole, fraction, point := strings.Cut(body, ".")
	n, ok := parseUnsigned(whole, 31)
	if !ok || point && (fraction == "" || len(fraction) > places || digits(fraction) != len(fraction)) {
		return 0, false
	}
	for i := range places {
		n *= 10
		if i < len(fraction) {
			n += uint64(fraction[i] - '0')
		}
	}
	return n, n <= math.MaxInt32
}

// scale turns a share into systemd's fraction of UINT32_MAX, which the manager
// applies to what the machine has. 247 truncated, and knew tenths of a percent
// only; since 248 it is rounded.
func scale(permyriad uint64) uint32 {
	return uint32((permyriad*math.MaxUint32 + 5000) / 10000)
}

var memorySyntax = syntax{
	sig: "t|u", parse: parseMemory,
	expected: "a size such as 512M, a percentage such as 50%, or infinity",
}

func parseMemory(_ *syntax, name, value string) ([]Property, bool) {
	if ps, ok := parseLimit(name, value); ok {
		return ps, true
	}
	n, ok := size(value, 1024)
	// A protection and a swap limit can be 0, these cannot.
	return one(name, n), ok && (n > 0 || !strings.HasSuffix(name, "MemoryMax") && !strings.HasSuffix(name, "MemoryHigh"))
}

// While the machine starts or stops a share of it goes by no name of its own.
var startupMemorySyntax = syntax{
	sig: "t", parse: parseStartupMemory,
	expected: "a size such as 512M, or infinity",
}

func parseStartupMemory(s *syntax, name, value string) ([]Property, bool) {
	if _, share := permyriad(value); share {
		return nil, false
	}
	return parseMemory(s, name, value)
}

var tasksSyntax = syntax{
	sig: "t|u", parse: parseTasks,
	expected: "a number such as 64, a percentage such as 50%, or infinity",
}

func parseTasks(_ *syntax, name, value string) ([]Property, bool) {
	if ps, ok := parseLimit(name, value); ok {
		return ps, true
	}
	n, ok := parseUnsigned(value, 64)
	return one(name, n), ok && n > 0
}

// parseLimit reads what all limits of a unit have in common. The empty value
// is no limit; of a protection that is 0.
func parseLimit(name, value string) ([]Property, bool) {
	switch {
	case value == "infinity":
		return one(name, unset), true
	case value == "" && (strings.HasSuffix(name, "MemoryMin") || strings.HasSuffix(name, "MemoryLow")):
		return one(name, uint64(0)), true
	case value == "":
		return one(name, unset), true
	}
	share, ok := permyriad(value)
	return one(name+"Scale", scale(share)), ok && share <= 10000
}

var shareSyntax = syntax{sig: "u", parse: parseShare, expected: "a percentage from 0% to 100%"}

func parseShare(_ *syntax, name, value string) ([]Property, bool) {
	share, ok := permyriad(value)
	return one(name, scale(share)), ok && share <= 10000
}

var cpuQuotaSyntax = syntax{
	sig: "t", parse: parseCPUQuota,
	expected: "a percentage of one CPU such as 20% or 150%, or nothing for no limit",
}

func parseCPUQuota(_ *syntax, _, value string) ([]Property, bool) {
	const name = "CPUQuotaPerSecUSec"
	if value == "" {
		return one(name, unset), true
	}
	share, ok := permyriad(value)
	return one(name, share*usecPerSec/10000), ok && share > 0
}

type quota struct {
	Size    uint64
	Scale   uint32
	Enforce string
}

var quotaSyntax = syntax{
	sig: "(tus)", parse: parseQuota,
	expected: "a size such as 512M, a percentage such as 50%, or off",
}

func parseQuota(_ *syntax, name, value string) ([]Property, bool) {
	q := quota{Size: unset, Scale: math.MaxUint32, Enforce: "no"}
	if value == "" || value == "off" {
		return one(name, q), true
	}
	q.Enforce = "yes"
	if share, ok := permyriad(value); ok && share <= 10000 {
		q.Scale = scale(share)
		return one(name, q), true
	}
	n, ok := size(value, 1024)
	q.Size = n
	return one(name, q), ok
}
