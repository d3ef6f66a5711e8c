package serve_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/unitward/unitward/verify"
)

// boundTo is the scope that a service ends with.
func boundTo(t *testing.T, name string) string {
	t.Helper()
	for unit := range strings.FieldsSeq(systemctl(t, "show", "-p", "BindsTo", "--value", name+".service")) {
		if strings.HasPrefix(unit, "unitward-guard-") {
			return unit
		}
	}
	return ""
}

func systemctl(t *testing.T, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		args = append([]string{"--user"}, args...)
	}
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemctl %v: %v: %s", args, err, out)
	}
	return string(out)
}

// Services that end with their server share a guard, but for the first and for
// those that can outlive it. When somebody stops the guard's scope they end, and
// those that come later have another.
func TestServicesShareAGuard(t *testing.T) {
	if os.Getenv("UNITWARD_RIG") == "" {
		t.Skip("it needs a manager; the rig has one")
	}
	c := dial(t, verify.IsolationService, options{})
	first := c.start(nil, "sleep", "4820")
	a, b := c.start(nil, "sleep", "4821"), c.start(nil, "sleep", "4821")
	apart := c.start(map[string]any{"promotable": true}, "sleep", "4822")
	scope := boundTo(t, a)
	if scope == "" || boundTo(t, b) != scope {
		t.Fatalf("they are bound to %q and %q", scope, boundTo(t, b))
	}
	for _, name := range []string{first, apart} {
		if own := boundTo(t, name); own == "" || own == scope {
			t.Errorf("%s is bound to %q, the others to %q", name, own, scope)
		}
	}
	systemctl(t, "stop", scope)
	for _, name := range []string{a, b} {
		if rep := c.settled(name); !rep.Confirmed || *rep.Exit.Signal != "TERM" {
			t.Errorf("%+v", rep)
		}
	}
	next := c.start(nil, "sleep", "4823")
	if other := boundTo(t, next); other == "" || other == scope {
		t.Errorf("it is bound to %q, those before were to %q", other, scope)
	}
	c.kill()
	if !eventually(func() bool { return processes("sleep", "482[0-3]") == 0 }) {
		t.Error("some are left")
	}
}
