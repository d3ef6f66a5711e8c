package property

import "strings"

// Each resource limit counts something else, so each has a syntax of its own:
// "HARD" for both, or "SOFT:HARD".
var (
	limitNumberSyntax = syntax{sig: "t", parse: parseLimitNumber, expected: "a number such as 1024, infinity, or SOFT:HARD of these"}
	limitSizeSyntax   = syntax{sig: "t", parse: parseLimitSize, expected: "a size such as 512M, infinity, or SOFT:HARD of these"}
	limitTimeSyntax   = syntax{sig: "t", parse: parseLimitTime, expected: "a time such as 30s or 5min, infinity, or SOFT:HARD of these"}
	limitUsecSyntax   = syntax{sig: "t", parse: parseLimitUsec, expected: "a time such as 500ms (a bare number is microseconds), infinity, or SOFT:HARD of these"}
	limitNiceSyntax   = syntax{sig: "t", parse: parseLimitNice, expected: "a nice level with its sign such as +5 or -10, a raw limit from 0 to 40, or SOFT:HARD of these"}
)

// rlimit makes the two properties of one limit; the soft one has a name of its
// own.
func rlimit(name, value string, read func(string) (uint64, bool)) ([]Property, bool) {
	soft, hard, ok := strings.Cut(value, ":")
	if !ok {
		hard = soft
	}
	s, okSoft := read(soft)
	h, okHard := read(hard)
	return append(one(name, h), one(name+"Soft", s)...), okSoft && okHard && s <= h
}

// orInfinity adds the word for no limit. A nice level has none.
func orInfinity(read func(string) (uint64, bool)) func(string) (uint64, bool) {
	return func(s string) (uint64, bool) {
		if s == "infinity" {
			return unset, true
		}
		return read(s)
	}
}

func parseLimitNumber(_ *syntax, name, value string) ([]Property, bool) {
	return rlimit(name, value, orInfinity(func(s string) (uint64, bool) { return parseUnsigned(s, 64) }))
}

func parseLimitSize(_ *syntax, name, value string) ([]Property, bool) {
	return rlimit(name, value, orInfinity(func(s string) (uint64, bool) { return size(s, 1024) }))
}

// parseLimitTime rounds up to the kernel's seconds.
func parseLimitTime(_ *syntax, name, value string) ([]Property, bool) {
	return rlimit(name, value, func(s string) (uint64, bool) {
		n, ok := usec(s)
		if !ok || n == unset {
			return n, ok
		}
		return n/usecPerSec + min(n%usecPerSec, 1), ok
	})
}

func parseLimitUsec(_ *syntax, name, value string) ([]Property, bool) {
	return rlimit(name, value, func(s string) (uint64, bool) { return timespan(s, usecPerSec, 1) })
}

// parseLimitNice turns a nice level into the kernel's scale, which is 20 minus
// the level. Without a sign the number is the raw limit.
func parseLimitNice(_ *syntax, name, value string) ([]Property, bool) {
	return rlimit(name, value, func(s string) (uint64, bool) {
		if up, ok := strings.CutPrefix(s, "+"); ok {
			n, ok := parseUnsigned(up, 64)
			return 20 - n, ok && n < 20
		}
		if down, ok := strings.CutPrefix(s, "-"); ok {
			n, ok := parseUnsigned(down, 64)
			return 20 + n, ok && n <= 20
		}
		n, ok := parseUnsigned(s, 64)
		return n, ok && n <= 40
	})
}
