package unit

import (
	"fmt"
	"strings"
)

// IsolationError says that an isolation cannot be used here. Nothing was
// started and nothing is left behind.
type IsolationError struct {
	// Isolation is the rung, service, scope, cgroup or group; or all that were tried,
	// with commas between them.
	Isolation string
	// Refused has one entry for each way that was tried, in that order.
	Refused []Refusal
	// Hints say what would help; nil when nothing is known to.
	Hints []string
}

// Refusal is one way that was tried, and why it cannot be taken.
type Refusal struct {
	// What is the way, such as "our own cgroup /user.slice/…".
	What string `json:"what"`
	// Why is why not.
	Why string `json:"why"`
}

func (r Refusal) String() string { return r.What + ": " + r.Why }

func (e *IsolationError) Error() string {
	if len(e.Refused) == 0 {
		return fmt.Sprintf("cannot use isolation %s here", e.Isolation)
	}
	why := make([]string, len(e.Refused))
	for i, r := range e.Refused {
		why[i] = r.String()
	}
	return fmt.Sprintf("cannot use isolation %s here: %s", e.Isolation, strings.Join(why, "; "))
}

// Hint proposes the way out.
func (e *IsolationError) Hint() []string { return e.Hints }
