package launch

import (
	"errors"

	"github.com/unitward/unitward/unit"
)

// answer is what the keeper says, once: that the job runs, or why not.
type answer struct {
	Started   bool
	Isolation *unit.IsolationError `json:",omitempty"`
	NoManager *unit.NoManagerError `json:",omitempty"`
	Access    *unit.AccessError    `json:",omitempty"`
	Limits    *unit.LimitsError    `json:",omitempty"`
	Start     *unit.StartError     `json:",omitempty"`
	Error     string               `json:",omitempty"`
	Hints     []string             `json:",omitempty"`
}

func (a *answer) err() error {
	switch {
	case a.Started:
		return nil
	case a.Isolation != nil:
		return a.Isolation
	case a.NoManager != nil:
		return a.NoManager
	case a.Access != nil:
		return a.Access
	case a.Limits != nil:
		return a.Limits
	case a.Start != nil:
		return a.Start
	}
	return &toldError{a.Error, a.Hints}
}

// toldError is an error as another process told it.
type toldError struct {
	text  string
	hints []string
}

func (e *toldError) Error() string { return e.text }

// Hint proposes the way out.
func (e *toldError) Hint() []string { return e.hints }

func tell(err error) answer {
	a := answer{Started: err == nil}
	switch {
	case err == nil, errors.As(err, &a.Isolation), errors.As(err, &a.NoManager), errors.As(err, &a.Access), errors.As(err, &a.Limits), errors.As(err, &a.Start):
	default:
		a.Error = err.Error()
		var h interface{ Hint() []string }
		if errors.As(err, &h) {
			a.Hints = h.Hint()
		}
	}
	return a
}
