package property

import (
	"fmt"

	"github.com/unitward/unitward/unit"
)

// SyntaxError says that an assignment is not one. Like every error of this
// package it matches unit.ErrUsage.
type SyntaxError struct {
	Assignment string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("cannot set property %q: expected NAME=VALUE, such as MemoryMax=512M", e.Assignment)
}

// Is makes the error match unit.ErrUsage.
func (e *SyntaxError) Is(target error) bool { return target == unit.ErrUsage }

// UnknownError says that no service of systemd has the property.
type UnknownError struct {
	Name string
	// Similar is the property that was probably meant; empty when none is
	// near.
	Similar string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("cannot set property %s: systemd has no such property of a service", printable(e.Name))
}

// Is makes the error match unit.ErrUsage.
func (e *UnknownError) Is(target error) bool { return target == unit.ErrUsage }

// Hint proposes the way out.
func (e *UnknownError) Hint() []string {
	if e.Similar != "" {
		return []string{"did you mean " + e.Similar + "?"}
	}
	return []string{"known are those of systemd.exec(5), systemd.service(5), systemd.kill(5), systemd.resource-control(5) and systemd.unit(5)"}
}

// ValueError says that a property cannot have the value.
type ValueError struct {
	Name, Value string
	// Expected completes "expected …".
	Expected string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("cannot set property %s=%q: expected %s", e.Name, e.Value, e.Expected)
}

// Is makes the error match unit.ErrUsage.
func (e *ValueError) Is(target error) bool { return target == unit.ErrUsage }

// NotAllowedError says that unitward itself must own the property.
type NotAllowedError struct {
	Name string
	// Reason says what would break.
	Reason string
	// Way is what to do instead; empty when there is nothing.
	Way string
}

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("cannot set property %s: %s", e.Name, e.Reason)
}

// Is makes the error match unit.ErrUsage.
func (e *NotAllowedError) Is(target error) bool { return target == unit.ErrUsage }

// Hint proposes the way out.
func (e *NotAllowedError) Hint() []string {
	if e.Way == "" {
		return nil
	}
	return []string{e.Way}
}

// printable quotes a name that would not be readable as it is.
func printable(name string) string {
	for i := range len(name) {
		if name[i] <= ' ' || name[i] >= 0x7f {
			return fmt.Sprintf("%q", name)
		}
	}
	return name
}
