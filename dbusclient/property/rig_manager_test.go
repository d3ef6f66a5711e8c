package property_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	godbus "github.com/godbus/dbus/v5"

	"github.com/unitward/unitward/dbusclient/property"
)

// pair is the same unit made twice: 0 by us, 1 by systemd-run. The names have
// no suffix.
type pair struct {
	rigCase
	name  [2]string
	err   [2]error
	since int
	shown [2][]string
	file  [2][]string
}

// made reports whether systemd-run made a trigger, though it failed: that of 247
// waits for the trigger's own start.
func (p *pair) made() bool { return p.unit != property.Service && len(p.file[1]) > 0 }

func (p *pair) unitOf(i int) string { return p.name[i] + "." + p.unit }

type rig struct {
	conn    *godbus.Conn
	manager godbus.BusObject
	mode    string
	version int
	pairs   []*pair
	prefix  string
	// dir is a directory for what the units make.
	dir string
}

func newRig(t *testing.T) *rig {
	if os.Getenv("UNITWARD_RIG") == "" {
		if strings.Contains(os.Getenv("UNITWARD_REQUIRE"), "rig") {
			t.Fatal("rig: required, but UNITWARD_RIG is not set")
		}
		t.Skip("rig: needs a systemd manager")
	}
	address, mode := "unix:path=/run/dbus/system_bus_socket", "--system"
	if os.Geteuid() != 0 {
		address, mode = os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "--user"
	}
	conn, err := godbus.Connect(address)
	if err != nil {
		t.Fatalf("cannot connect to %s: %v", address, err)
	}
	r := &rig{
		conn: conn, mode: mode, pairs: make([]*pair, len(rigCases)),
		manager: conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
		prefix:  fmt.Sprintf("unitward-property-%d-", os.Getpid()),
	}
	v, err := r.manager.GetProperty("org.freedesktop.systemd1.Manager.Version")
	if err != nil {
		t.Fatalf("cannot read the manager's version: %v", err)
	}
	number, _, _ := strings.Cut(v.Value().(string), ".")
	number, _, _ = strings.Cut(number, " ")
	if r.version, err = strconv.Atoi(number); err != nil {
		t.Fatalf("cannot read the manager's version %v: %v", v, err)
	}
	t.Logf("systemd %d %s, %d cases", r.version, mode, len(rigCases))
	t.Cleanup(func() { r.clean(t) })
	return r
}

// each runs f n times, four at a time, and waits for the jobs after
// every hundred: a job holds a match rule of the manager's connection while it
// is queued, and with more than 512 of them the broker of the system bus makes
// the manager lose that connection.
func (r *rig) each(t *testing.T, n int, f func(int)) {
	for first := 0; first < n; first += 100 {
		var wg sync.WaitGroup
		next := make(chan int)
		for range 4 {
			wg.Go(func() {
				for i := range next {
					f(i)
				}
			})
		}
		for i := first; i < min(first+100, n); i++ {
			next <- i
		}
		close(next)
		wg.Wait()
		r.settle(t)
	}
}

// settle waits until the manager has no job for a unit of ours.
func (r *rig) settle(t *testing.T) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var jobs []struct {
			ID                uint32
			Unit, Type, State string
			Job, Path         godbus.ObjectPath
		}
		if err := r.manager.Call("org.freedesktop.systemd1.Manager.ListJobs", 0).Store(&jobs); err != nil {
			t.Errorf("cannot list the jobs: %v", err)
			return
		}
		ours := 0
		for _, j := range jobs {
			if strings.HasPrefix(j.Unit, r.prefix) {
				ours++
			}
		}
		if ours == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d jobs do not end", ours)
			return
		}
	}
}

func (r *rig) call(method string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r.manager.CallWithContext(ctx, "org.freedesktop.systemd1.Manager."+method, 0, args...).Err
}

// theirs are properties as godbus sends them.
type theirs struct {
	Name  string
	Value godbus.Variant
}

func sendable(ps []property.Property) []theirs {
	all := []theirs{}
	for _, p := range ps {
		all = append(all, theirs{p.Name, godbus.MakeVariantWithSignature(p.Value.Value(), godbus.ParseSignatureMust(string(p.Value.Signature())))})
	}
	return all
}

func (r *rig) name(n int, which string) string {
	return fmt.Sprintf("%s%03d-%s", r.prefix, n, which)
}

// loaded are the units of this test.
func (r *rig) loaded(t *testing.T) []string {
	t.Helper()
	var units []struct {
		Name, Description, Load, Active, Sub, Follows string
		Path                                          godbus.ObjectPath
		JobID                                         uint32
		JobType                                       string
		JobPath                                       godbus.ObjectPath
	}
	if err := r.manager.Call("org.freedesktop.systemd1.Manager.ListUnitsByPatterns", 0, []string{}, []string{r.prefix + "*"}).Store(&units); err != nil {
		t.Errorf("cannot list the units: %v", err)
	}
	var names []string
	for _, u := range units {
		names = append(names, u.Name)
	}
	return names
}

// clean leaves no unit and no directory behind.
func (r *rig) clean(t *testing.T) {
	defer r.conn.Close()
	stop := func(unit string) {
		if err := r.call("StopUnit", unit, "replace"); err != nil && !strings.Contains(err.Error(), "not loaded") {
			t.Errorf("cannot stop %s: %v", unit, err)
		}
	}
	r.settle(t)
	stop("unitward-property.slice")
	units := r.loaded(t)
	r.each(t, len(units), func(i int) { stop(units[i]) })
	// A unit that failed stays until it is reset.
	r.each(t, len(units), func(i int) { r.call("ResetFailedUnit", units[i]) })
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		left := r.loaded(t)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d units are left: %v", len(left), left)
			break
		}
	}
	home, _ := os.UserHomeDir()
	for _, d := range []string{
		"/var/lib", "/var/cache", "/var/log", "/etc", "/run", "/var/lib/private", "/var/cache/private", "/var/log/private",
		filepath.Join(home, ".config"), filepath.Join(home, ".cache"), filepath.Join(home, ".local/state"),
		filepath.Join(home, ".config/log"), filepath.Join(home, ".local/state/log"), os.Getenv("XDG_RUNTIME_DIR"),
		"/var/lib/systemd/timers", filepath.Join(home, ".local/share/systemd/timers"), // Persistent=
	} {
		left, _ := filepath.Glob(filepath.Join(d, "unitward-property-*"))
		stamps, _ := filepath.Glob(filepath.Join(d, "stamp-unitward-property-*"))
		for _, l := range append(left, stamps...) {
			if err := os.RemoveAll(l); err != nil {
				t.Errorf("cannot remove %s: %v", l, err)
			}
		}
	}
}
