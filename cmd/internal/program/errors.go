package program

import "github.com/unitward/unitward/unit"

// Error is what keeps a program from beginning; it lies in how it was called.
type Error struct {
	Problem, Way string
}

func (e *Error) Error() string { return e.Problem }

// Hint proposes the way out.
func (e *Error) Hint() []string { return []string{e.Way} }

// Is is true for unit.ErrUsage.
func (e *Error) Is(target error) bool { return target == unit.ErrUsage }
