package property

import (
	"math"
	"math/bits"
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
		n, carry := bits.Add64(n, fraction.of(factor), 0)
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

// ratio is what follows the decimal point.
type ratio struct{ num, den uint64 }

func (r ratio) of(n uint64) uint64 {
	if r.num == 0 {
		return 0
	}
	hi, lo := bits.Mul64(n, r.num)
	q, _ := bits.Div64(hi, lo, r.den) // num < den, so the quotient fits
	return q
}

// decimal reads digits, a point and more digits. The fraction may be missing
// after the point; digits beyond the 18th do not count.
func decimal(s string) (whole uint64, fraction ratio, rest string, ok bool) {
	n := digits(s)
	if n == 0 {
		return 0, ratio{}, s, false
	}
	for i := range n {
		d := uint64(s[i] - '0')
		if whole > (math.MaxUint64-d)/10 {
			return 0, ratio{}, s, false
		}
		whole = whole*10 + d
	}
	s = s[n:]
	fraction.den = 1
	if s != "" && s[0] == '.' {
		s = s[1:]
		n = digits(s)
		for i := range min(n, 18) {
			fraction.num = fraction.num*10 + uint64(s[i]-'0')
			fraction.den *= 10
		}
		s = s[n:]
	}
	return whole, fraction, s, true
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
	return one(name, n), ok && (n > 0 || name != "MemoryMax" && name != "MemoryHigh")
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
	case value == "" && (name == "MemoryMin" || name == "MemoryLow"):
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
