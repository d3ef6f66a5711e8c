package property_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
)

// inverse are the other ends of dependencies, which belong to the other unit.
var inverse = strings.Fields("BoundBy ConflictedBy ConsistsOf InSlice OnFailureOf OnSuccessOf ReferencedBy References RequiredBy RequisiteOf " +
	"SliceOf TriggeredBy Triggers UpheldBy WantedBy")

// untaken is what systemd lists of each type of unit, and no manager takes.
var untaken = map[string][]string{
	property.Service: inverse,
	property.Scope:   inverse,
	"timer":          inverse,
	"path":           append([]string{"PollLimitBurst", "PollLimitIntervalSec"}, inverse...),
	"socket": append([]string{
		"ExecReload", "CoredumpReceive", "Delegate", "DelegateSubgroup", "OOMRules",
		"ManagedOOMMemoryPressure", "ManagedOOMMemoryPressureDurationSec", "ManagedOOMMemoryPressureLimit", "ManagedOOMSwap",
	}, inverse...),
}

// misleading is what a scope takes, and does not say there who runs the command.
var misleading = []string{"User", "Group"}

// unlisted is what systemd does not list, and its manager takes: names that are
// deprecated, and those that its systemd-run has never had.
var unlisted = strings.Fields("CPUAccounting ConditionKernelVersion AssertKernelVersion DefaultMemoryLow DefaultMemoryMin " +
	"DefaultStartupMemoryLow StartupMemoryHigh StartupMemoryLow StartupMemoryMax StartupMemorySwapMax StartupMemoryZSwapMax " +
	"OnSuccessJobMode AcceptFileDescriptors ExecStopPre PassPIDFD")

// TestRigSettings compares the names of each type of unit with those that
// systemd itself lists for systemd-run.
func TestRigSettings(t *testing.T) {
	r := newRig(t)
	if r.version < 258 {
		t.Skipf("version: the systemd-analyze of %d has no transient-settings", r.version)
	}
	for _, unit := range property.Types {
		out, err := exec.Command("systemd-analyze", "transient-settings", unit).Output()
		if err != nil {
			t.Fatalf("cannot list the settings of a %s: %v", unit, err)
		}
		listed, known := strings.Fields(string(out)), property.Names(unit)
		if len(listed) < 100 {
			t.Errorf("only %d settings of a %s are listed", len(listed), unit)
		}
		for _, name := range listed {
			if !slices.Contains(known, name) && !slices.Contains(untaken[unit], name) && (unit != property.Scope || !slices.Contains(misleading, name)) {
				t.Errorf("systemd lists %s of a %s, which is not known here", name, unit)
			}
		}
		for _, name := range known {
			// Names that end with Ex are from before they were one with the others.
			if !slices.Contains(listed, name) && !strings.HasSuffix(name, "Ex") && !slices.Contains(unlisted, name) {
				t.Errorf("%s of a %s is not listed by systemd", name, unit)
			}
		}
	}
}

// TestRigUntaken holds that no manager takes what is left out here though systemd
// lists it.
func TestRigUntaken(t *testing.T) {
	r := newRig(t)
	limits := map[string][]property.Property{
		"PollLimitBurst":       {{Name: "PollLimitBurst", Value: dbus.MakeVariant(uint32(5))}},
		"PollLimitIntervalSec": {{Name: "PollLimitIntervalUSec", Value: dbus.MakeVariant(uint64(5))}},
	}
	for unit, names := range untaken {
		for _, name := range names {
			ps, err := limits[name], error(nil)
			switch {
			case slices.Contains(inverse, name):
				ps = []property.Property{{Name: name, Value: dbus.MakeVariant([]string{"unitward-none.target"})}}
			case name == "ExecReload":
				ps, err = property.Convert(name, "/bin/true")
			case name == "CoredumpReceive", name == "Delegate":
				ps, err = property.Convert(name, "yes")
			case name == "DelegateSubgroup", name == "OOMRules":
				ps, err = property.Convert(name, "x")
			case name == "ManagedOOMMemoryPressureDurationSec":
				ps, err = property.Convert(name, "5s")
			case name == "ManagedOOMMemoryPressureLimit":
				ps, err = property.Convert(name, "50%")
			case strings.HasPrefix(name, "ManagedOOM"):
				ps, err = property.Convert(name, "kill")
			}
			if err != nil || len(ps) == 0 {
				t.Fatalf("%s has no value: %v", name, err)
			}
			if err := r.takes(unit, sendable(ps)...); err == nil {
				t.Errorf("systemd %d takes %s of a %s", r.version, name, unit)
			}
		}
	}
}
