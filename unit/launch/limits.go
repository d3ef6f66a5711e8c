package launch

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// controllerOf names the controller and the file in which a limit stands
// (cgroup-v2.rst).
func controllerOf(property string) (controller, file string) {
	switch property {
	case "MemoryMax":
		return "memory", "memory.max"
	case "TasksMax":
		return "pids", "pids.max"
	case "CPUQuota":
		return "cpu", "cpu.max"
	}
	return "", ""
}

// require fails with a *unit.LimitsError when a limit would not hold in the
// manager's units, before anything is started.
func (l *Launcher) require(c *dbusclient.Client, limits []unit.LimitAsked) error {
	if len(limits) == 0 {
		return nil
	}
	have, why := l.controllers(c)
	for _, lim := range limits {
		controller, _ := controllerOf(lim.Name)
		if slices.Contains(have, controller) {
			continue
		}
		found := "the " + controller + " controller is not delegated to the " + string(c.Manager()) + " manager"
		if why != "" {
			found = why
		}
		return &unit.LimitsError{Limit: unit.Limit{Name: lim.Name, Asked: lim.Value, Found: found}}
	}
	return nil
}

// controllers lists what the manager can give to its units, or says why that
// is not known.
func (l *Launcher) controllers(c *dbusclient.Client) (have []string, why string) {
	h := l.hierarchy()
	if h == nil {
		return nil, "no cgroup2 file system is mounted"
	}
	have, err := h.Controllers(c.ControlGroup())
	if err != nil {
		return nil, err.Error()
	}
	return have, ""
}

// readLimits reads back what the kernel holds of the limits that were asked.
func (j *Job) readLimits(c *dbusclient.Client, asked []unit.LimitAsked, id unit.Identity) []unit.Limit {
	var out []unit.Limit
	for _, a := range asked {
		out = append(out, j.readLimit(c, a, id))
	}
	return out
}

func (j *Job) readLimit(c *dbusclient.Client, a unit.LimitAsked, id unit.Identity) unit.Limit {
	lim := unit.Limit{Name: a.Name, Asked: a.Value}
	controller, file := controllerOf(a.Name)
	if id.Far != nil {
		lim.Found = "not read: its cgroup is not this machine's, or not this user's"
		return lim
	}
	h := j.hierarchy()
	if h == nil {
		lim.Found = "no cgroup2 file system is mounted"
		return lim
	}
	g := h.Recorded(id.Cgroup, id.CgroupInode)
	value, err := g.File(file)
	switch {
	case err == nil:
		lim.Found = value
		lim.Applied = value != "max" && !strings.HasPrefix(value, "max ")
	case id.CgroupInode == 0 || g.Read().State == verify.CgroupGone:
		// It held for as long as the job lived, if the manager has the
		// controller to give.
		have, _ := j.l.controllers(c)
		lim.Applied = slices.Contains(have, controller)
		lim.Found = "not read: the job ended first"
	case errors.Is(err, fs.ErrNotExist):
		lim.Found = "the " + controller + " controller is not enabled for the unit"
	default:
		lim.Found = err.Error()
	}
	return lim
}

// properties are the unit's properties that the user asked for.
func properties(s *unit.Spec) ([]property.Property, error) {
	props, err := property.ParseAll(s.Properties)
	if err != nil {
		return nil, err
	}
	for _, lim := range s.Limits {
		p, err := property.Parse(lim.Name + "=" + lim.Value)
		if err != nil {
			return nil, err
		}
		props = append(props, p...)
	}
	return props, nil
}

// rawLimits are the limits as numbers.
func rawLimits(asked []unit.LimitAsked) (cgroup.Limits, error) {
	var l cgroup.Limits
	for _, a := range asked {
		ps, err := property.Parse(a.Name + "=" + a.Value)
		if err != nil {
			return l, err
		}
		for _, p := range ps {
			value, ok := p.Value.Value().(uint64)
			if !ok {
				return l, &unit.LimitsError{Limit: unit.Limit{Name: a.Name, Asked: a.Value, Found: "a share of the host's memory or tasks needs a manager"}}
			}
			switch p.Name {
			case "MemoryMax":
				l.MemoryMax = value
			case "TasksMax":
				l.TasksMax = value
			case "CPUQuotaPerSecUSec":
				l.CPUQuota = value
			}
		}
	}
	return l, nil
}

// notApplied says of each limit why it does not hold.
func notApplied(asked []unit.LimitAsked, why string) []unit.Limit {
	var out []unit.Limit
	for _, a := range asked {
		out = append(out, unit.Limit{Name: a.Name, Asked: a.Value, Found: why})
	}
	return out
}
