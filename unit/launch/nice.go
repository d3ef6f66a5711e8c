package launch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// nice refuses a service a level that its user manager may not set. systemd
// sets the nearest then, and says nothing of it (setpriority_closest in 247 to
// 262). The isolations in which the job is our child fail by themselves.
func (l *Launcher) nice(ctx context.Context, s *unit.Spec) error {
	level, ok := niceOf(s)
	if !ok || s.Manager != unit.ManagerUser || l.cfg.UID == 0 {
		return nil
	}
	c, err := l.client(ctx, here(s.Manager))
	if err != nil {
		return err
	}
	own, err := keeper.LowestNice(0)
	if err != nil {
		return err
	}
	lowest, err := keeper.LowestNice(l.managerPID(c))
	if err != nil {
		lowest = own // it gave us its limits, or the like of them
	}
	if level >= lowest {
		return nil
	}
	why := fmt.Sprintf("nice level %d was asked for, and the user manager may not go below %d (RLIMIT_NICE)", level, lowest)
	if level >= own {
		return &unit.IsolationError{Isolation: verify.IsolationService, Refused: []unit.Refusal{{What: "service", Why: why}}}
	}
	return &unit.StartError{Unit: s.Command[0], Status: statusNoRun, Detail: why,
		Hints: []string{fmt.Sprintf("raise LimitNICE= of user@%d.service, or run it as root with --system", l.cfg.UID)}}
}

// niceOf is the level that was asked for, as an option or as a property.
func niceOf(s *unit.Spec) (level int, ok bool) {
	if s.Nice != nil {
		level, ok = *s.Nice, true
	}
	props, err := property.ParseAll(s.Properties)
	if err != nil {
		return level, ok // whoever makes the unit says so
	}
	if v, set := property.Last(props, "Nice"); set {
		if n, is := v.Value().(int32); is {
			level, ok = int(n), true
		}
	}
	return level, ok
}

// managerPID is a process of the manager itself; -1 when none can be found.
func (l *Launcher) managerPID(c *dbusclient.Client) int {
	h := l.hierarchy()
	if h == nil {
		return -1
	}
	g, err := h.Lookup(c.ControlGroup() + "/init.scope")
	if err != nil {
		return -1
	}
	procs, err := g.File("cgroup.procs")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(procs, "\n")
	pid, err := strconv.Atoi(first)
	if err != nil || pid <= 0 {
		return -1
	}
	return pid
}
