package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The slices that are proposed are those of the manager that would be asked: what
// it has files of, and what runs.
func TestCompleteSlices(t *testing.T) {
	w := newWard(t)
	slice := fmt.Sprintf("unitwardproposed%d.slice", os.Geteuid())
	w.want(0, "start", manager(), "--slice", slice, "--", "sleep", "1411")
	for option, file := range map[string]string{"--user": "app.slice", "--system": "user.slice"} {
		out := w.want(0, "__complete", "run", option, "--slice", "").out
		proposed := strings.Split(strings.TrimSuffix(out, "\n:4\n"), "\n")
		if !slices.Contains(proposed, file) {
			t.Errorf("with %s, %s is not among %q", option, file, proposed)
		}
		if there := slices.Contains(proposed, slice); there != (option == manager()) {
			t.Errorf("with %s, a slice of the %s manager is among %q: %v", option, manager(), proposed, there)
		}
	}
}
