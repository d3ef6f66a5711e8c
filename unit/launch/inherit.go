package launch

import (
	"context"
	"fmt"
	"strings"

	"github.com/unitward/unitward/unit"
)

// inherit resolves Spec.InheritSlice in a copy of the spec: the slice that this
// process is in among the manager's own, and below it the one that was asked
// for.
func (l *Launcher) inherit(ctx context.Context, s *unit.Spec) (*unit.Spec, error) {
	c, err := l.client(ctx, here(s.Manager))
	if err != nil {
		return nil, err
	}
	own, err := cgroupOf(l.self.PID)
	if err != nil {
		return nil, fmt.Errorf("cannot tell which slice to inherit: %w", err)
	}
	slice, ok := innerSlice(c.ControlGroup(), own)
	if !ok {
		return nil, &AskError{fmt.Sprintf("cannot inherit a slice: this process is in %s, where the %s manager has no units", own, s.Manager),
			"name one with --slice"}
	}
	copied := *s
	copied.InheritSlice = false
	copied.Slice = below(slice, s.Slice)
	return &copied, nil
}

// innerSlice is the slice of what is in a cgroup, among the units of a manager
// whose own is root: its path leads through slices to a unit.
func innerSlice(root, cgroup string) (slice string, ok bool) {
	rest, ok := strings.CutPrefix(cgroup+"/", strings.TrimSuffix(root, "/")+"/")
	if !ok {
		return "", false
	}
	slice = "-.slice"
	for part := range strings.SplitSeq(rest, "/") {
		if !strings.HasSuffix(part, ".slice") {
			break
		}
		slice = part
	}
	return slice, true
}

// below is the slice in a slice (systemd.slice(5)).
func below(outer, inner string) string {
	switch {
	case inner == "":
		return outer
	case outer == "-.slice":
		return inner
	}
	return strings.TrimSuffix(outer, ".slice") + "-" + inner
}
