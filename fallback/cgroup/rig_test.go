package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// inService runs tests of units in a service of our manager, where the place
// of units has to be of one kind.
func inService(t *testing.T, place Place, properties ...string) {
	t.Helper()
	if os.Getenv("UNITWARD_RIG") == "" {
		t.Skip("rig: needs a systemd manager")
	}
	if _, err := FindHierarchy(); errors.Is(err, ErrNoHierarchy) {
		t.Skip("cgroup2: none is mounted here")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := []string{"--wait", "--pipe", "--collect", "--quiet", "--unit", fmt.Sprintf("unitward-test-%s-%d", place, os.Getpid()), "--setenv", "UNITWARD_TEST_PLACE=" + string(place)}
	if os.Geteuid() != 0 {
		argv = append(argv, "--user")
	}
	for _, p := range properties {
		argv = append(argv, "-p", p)
	}
	argv = append(argv, self, "-test.run=^(TestUnit|TestPlace$)", "-test.v", "-test.timeout=4m")
	out, err := exec.Command("systemd-run", argv...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPlace") {
		t.Errorf("systemd-run %s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	if testing.Verbose() {
		t.Logf("%s", out)
	}
}

// What the system manager delegates is where units are made, for root and for
// a user. A user manager does not say what it delegates.
func TestDelegated(t *testing.T) {
	if os.Geteuid() != 0 {
		inService(t, PlaceManager, "Delegate=yes")
		return
	}
	inService(t, PlaceOwn, "Delegate=yes")
	inService(t, PlaceOwn, "Delegate=yes", "User=tester")
}

// A service that is not delegated is systemd's own: a user's units go to his
// manager's tree, and root's, as a last resort, to the top.
func TestNotDelegated(t *testing.T) {
	where := PlaceManager
	if os.Geteuid() == 0 {
		h, err := FindHierarchy()
		if err != nil {
			t.Skip("cgroup2: " + err.Error())
		}
		if _, err := h.Lookup((&search{}).manager()); err != nil {
			where = PlaceTop
		}
	}
	inService(t, where)
}

// TestPlace is a part of the tests above.
func TestPlace(t *testing.T) {
	want := Place(os.Getenv("UNITWARD_TEST_PLACE"))
	if want == "" {
		t.Skip("place: other tests run it")
	}
	h, err := FindHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	p, err := h.FindParent("")
	if err != nil {
		t.Fatal(err)
	}
	if p.Place != want || p.shared != (want != PlaceOwn) || p.shared != (path.Base(p.Path) == ours) {
		t.Errorf("the place is %+v; want %s", p, want)
	}
	t.Logf("%s, not: %v", p.Path, p.Refused)
	u := raw(t, p, "place")
	job(t, u, "exec sleep 309")
	awaitMembers(t, u, 1)
}

// Whatever the machine is like, there is a place, or a typed reason.
func TestFindParent(t *testing.T) {
	for _, named := range []string{"", "/gone", "gone"} {
		p, err := FindParent(named)
		var none *unit.IsolationError
		switch {
		case errors.As(err, &none):
			if none.Isolation != verify.IsolationCgroup || len(none.Refused) == 0 || len(none.Hint()) == 0 {
				t.Errorf("FindParent(%q): %+v", named, none)
			}
		case err != nil || named != "" || p.Path == "" || p.Place == "":
			t.Errorf("FindParent(%q) = %+v, %v", named, p, err)
		}
		t.Logf("%+v, %v", p, err)
	}
}

// Case 42: nothing of a user in a cgroup of root's can get into another one.
func TestRootOwned(t *testing.T) {
	if os.Getenv("UNITWARD_RIG") == "" {
		t.Skip("rig: needs a systemd manager")
	}
	if os.Geteuid() == 0 {
		t.Skip("user: root can put a process anywhere")
	}
	h, err := FindHierarchy()
	if err != nil {
		t.Skip("cgroup2: " + err.Error())
	}
	_, err = h.FindParent("")
	var none *unit.IsolationError
	if !errors.As(err, &none) || len(none.Refused) != 3 || len(none.Hint()) == 0 {
		t.Fatalf("FindParent: %v", err)
	}
	for i, want := range []string{"belongs to uid 0", "cgroup.procs of their common ancestor /", "belongs to uid 0"} {
		if !strings.Contains(none.Refused[i].Why, want) {
			t.Errorf("%s; want %q", none.Refused[i], want)
		}
	}
}
