package property

import (
	"fmt"
	"strings"

	"github.com/unitward/unitward/unit"
)

// VersionError says that the running systemd lacks a property, or the kind of
// value that was given to it.
type VersionError struct {
	// Name is the property as it was asked for, with its value where it is the
	// value that is newer.
	Name string
	// Since is the first systemd that has it, Have the one that runs.
	Since, Have int
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("cannot set property %s: systemd %d has it, and %d runs here", e.Name, e.Since, e.Have)
}

// Hint proposes the way out.
func (e *VersionError) Hint() []string {
	return []string{fmt.Sprintf("leave it out, or run it under systemd %d or later", e.Since)}
}

// Is makes the error match unit.ErrUsage.
func (e *VersionError) Is(target error) bool { return target == unit.ErrUsage }

// Supported fails for the first assignment that a systemd of that version
// lacks, with a *VersionError. Assignments that Parse refuses are left to it,
// and every version has what a version of 0, which is not known, is asked for.
func Supported(assignments []string, version int) error {
	return supported(assignments, version, lookup)
}

func supported(assignments []string, version int, lookup func(string) (*syntax, int)) error {
	if version == 0 {
		return nil
	}
	for _, a := range assignments {
		name, value, _ := strings.Cut(a, "=")
		s, since := lookup(name)
		if since > version {
			return &VersionError{Name: name, Since: since, Have: version}
		}
		if s == nil {
			continue
		}
		if since := s.since(value); since > version {
			return &VersionError{Name: a, Since: since, Have: version}
		}
	}
	return nil
}
