package serve_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit/keeper"
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

// A guard that is left to itself, of a service with an owner or one that was detached,
// leaves its server no zombie when it ends.
func TestServerReapsGuards(t *testing.T) {
	if os.Getenv("UNITWARD_RIG") == "" {
		t.Skip("rig: needs a systemd manager")
	}
	state := stateDir(t)
	t.Cleanup(func() { sweep(t, state) })
	c := dial(t, verify.IsolationService, options{state: state})
	s := &session{c, ""}
	owner := s.process("sleep", "4824")
	names := []string{
		c.start(map[string]any{"lifetime": "owner", "owner_pid": owner.Process.Pid}, "sleep", "4825"),
		c.start(map[string]any{"promotable": true}, "sleep", "4825"),
	}
	c.call("job.promote", map[string]any{"name": names[1]}, nil)
	keeps := c.run(map[string]any{"leftovers": "keep"}, "sh", "-c", "sleep 4825 &")
	s.kept(keeps, "sleep")
	if n := guards(t, c.Cmd.Process.Pid); n != 3 {
		t.Errorf("there are %d guards of 3 services", n)
	}
	for _, name := range append(names, keeps.Name) {
		s.stop(name, 1000)
	}
	if !eventually(func() bool { return guards(t, c.Cmd.Process.Pid) == 0 }) {
		t.Errorf("%d guards are left", guards(t, c.Cmd.Process.Pid))
	}
}

// guards counts those of a server, also those that nobody has waited for.
func guards(t *testing.T, server int) (n int) {
	t.Helper()
	below, err := keeper.Descendants(server)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range below {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
		if strings.HasPrefix(string(comm), "unitward-guard") {
			n++
		}
	}
	return n
}

// Services that end with their server share a guard, but for the first and for
// those that can outlive it. When somebody stops the guard's scope they end, and
// those that come later have another.
func TestServicesShareAGuard(t *testing.T) {
	if os.Getenv("UNITWARD_RIG") == "" {
		t.Skip("rig: needs a systemd manager")
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
