package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Case 17: of many starts with one key at once, one runs, and all name it.
func TestKeyAtOnce(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		named := make([]string, 8)
		err := inParallel(len(named), len(named), func(i int) error {
			a, err := perform(w.cmd("start", "--key", "one", "--", "sleep", "1150"))
			named[i] = a.out
			if err == nil && a.code != 0 {
				err = fmt.Errorf("%s", a)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Sort(named); named[0] == "" || named[0] != named[len(named)-1] {
			t.Errorf("they name %q", named)
		}
		alive(t, "sleep", "1150")
		w.want(0, "stop", "--grace", "0s", strings.TrimSpace(named[0]))
	})
}
