package launch

import (
	"slices"
	"testing"
)

// The wants are systemd's: a test on the rig holds them against it.
func TestExpand(t *testing.T) {
	env := []string{"A=old", "A=a", "WORDS= one 'two  three' \"fo\"ur  ", "EMPTY=", "BACK=x\\ y \\", `OPEN="a b`, "TAB=a\tb\nc"}
	for _, c := range []struct{ argv, want []string }{
		{[]string{"$A"}, []string{"a"}},
		{[]string{"x$A"}, []string{"x$A"}},
		{[]string{"${A}"}, []string{"a"}},
		{[]string{"x${A}y${A}"}, []string{"xaya"}},
		{[]string{"$WORDS"}, []string{"one", "two  three", "four"}},
		{[]string{"${WORDS}"}, []string{" one 'two  three' \"fo\"ur  "}},
		{[]string{"$EMPTY", "${EMPTY}"}, []string{""}},
		{[]string{"$NONE", "${NONE}", "a${NONE}b"}, []string{"", "ab"}},
		{[]string{"$$A", "$${A}", "$$$$"}, []string{"$A", "${A}", "$$"}},
		{[]string{"${A", "x${A $$", "$", "$ A", "{A}", "", "x$"}, []string{"${A", "x${A $$", "{A}", "", "x$"}},
		{[]string{"${}", "${A B}", "${A${A}}"}, []string{"", "", "}"}},
		{[]string{"${A:-z}", "x${A:+y}${A}", "${A:-${A}}", "${NONE:", "${A-b}"}, []string{"${A:-z}", "x${A:+y}a", "${A:-a}", "${NONE:", ""}},
		{[]string{"$BACK"}, []string{"x y", ""}},
		{[]string{"$OPEN"}, []string{"a b"}},
		{[]string{"$TAB"}, []string{"a", "b", "c"}},
		{nil, nil},
	} {
		if got := Expand(c.argv, env); !slices.Equal(got, c.want) {
			t.Errorf("%q is %q, want %q", c.argv, got, c.want)
		}
	}
}
