package property

import (
	"fmt"
	"strings"

	"github.com/unitward/unitward/unit"
)

// ScopeError says that a property is one of services, which a scope lacks: it
// is about a process that systemd would make, and a scope is made around one
// that exists.
type ScopeError struct {
	Name string
}

func (e *ScopeError) Error() string {
	if e.ofCgroup() {
		return fmt.Sprintf("cannot set property %s of a scope: there it says whose the cgroup is, not who runs the command", e.Name)
	}
	return fmt.Sprintf("cannot set property %s of a scope: it is one of services", e.Name)
}

// Hint proposes the way out.
func (e *ScopeError) Hint() []string {
	if e.ofCgroup() {
		return []string{"to run the command as another user, use --uid and --gid"}
	}
	return []string{"ask for a service: --isolation service"}
}

// ofCgroup: a scope can have these, but they are another thing there. Were they
// taken, a job that finds no service would run as somebody else than was asked.
func (e *ScopeError) ofCgroup() bool { return e.Name == "User" || e.Name == "Group" }

// Is makes the error match unit.ErrUsage.
func (e *ScopeError) Is(target error) bool { return target == unit.ErrUsage }

// OfScope fails with a *ScopeError for the first assignment that no scope can
// have. It takes the names of unit files.
func OfScope(assignments []string) error {
	for _, a := range assignments {
		name, _, _ := strings.Cut(a, "=")
		if s, _ := lookup(name); s != nil && !ofScope(name) {
			return &ScopeError{Name: name}
		}
	}
	return nil
}

// SupportedScope is Supported for the properties of a scope.
func SupportedScope(assignments []string, version int) error {
	return supported(assignments, version, lookupScope)
}

// lookupScope is lookup for what a scope has.
func lookupScope(name string) (*syntax, int) {
	if !ofScope(name) {
		return nil, 0
	}
	s, since := lookup(name)
	if name == "OOMPolicy" {
		since = 252 // services had it before
	}
	return s, since
}

// ofScope: systemd.scope(5), systemd.kill(5), systemd.resource-control(5) and
// systemd.unit(5).
func ofScope(name string) bool {
	switch name {
	case "RuntimeMaxSec", "RuntimeRandomizedExtraSec", "TimeoutStopSec", "OOMPolicy",
		"KillMode", "KillSignal", "RestartKillSignal", "SendSIGHUP", "SendSIGKILL", "FinalKillSignal", "WatchdogSignal":
		return true
	}
	for _, t := range [][]entry{cgroupTable[:], unitTable[:]} {
		for i := range t {
			if t[i].name == name {
				return true
			}
		}
	}
	s, _ := conditionSyntax(name)
	return s != nil
}
