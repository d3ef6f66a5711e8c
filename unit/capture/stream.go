package capture

import (
	"fmt"
	"strconv"
	"strings"
)

// Stream is one of the two streams of output.
type Stream string

const (
	// Stdout is the standard output.
	Stdout Stream = "stdout"
	// Stderr is the standard error.
	Stderr Stream = "stderr"
)

const (
	endSuffix = ".end"
	// minDigits makes the names of segments sort by their offsets.
	minDigits = 16
	// maxDigits leaves room to add the size of a file to an offset.
	maxDigits = 18
)

func segmentName(s Stream, offset int64) string { return fmt.Sprintf("%s.%0*d", s, minDigits, offset) }

func endName(s Stream, offset int64) string { return segmentName(s, offset) + endSuffix }

// parseName takes the name of a file apart. ok is false when it is none that
// this package gives to a file of stream s.
func parseName(s Stream, name string) (offset int64, end, ok bool) {
	if name == string(s) {
		return 0, false, true
	}
	rest, ok := strings.CutPrefix(name, string(s)+".")
	if !ok {
		return 0, false, false
	}
	rest, end = strings.CutSuffix(rest, endSuffix)
	offset, ok = parseDigits(rest)
	if !ok || len(rest) < minDigits || len(rest) > minDigits && rest[0] == '0' {
		return 0, false, false
	}
	return offset, end, true
}

// parseDigits reads a number of at most maxDigits decimal digits.
func parseDigits(s string) (int64, bool) {
	if s == "" || len(s) > maxDigits {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}
