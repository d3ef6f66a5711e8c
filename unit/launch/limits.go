package launch

import (
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
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
func (j *Job) readLimits(asked []unit.LimitAsked, id unit.Identity) []unit.Limit {
	var out []unit.Limit
	for _, a := range asked {
		lim := unit.Limit{Name: a.Name, Asked: a.Value}
		controller, file := controllerOf(a.Name)
		switch h := j.l.hierarchy(); {
		case h == nil:
			lim.Found = "no cgroup2 file system is mounted"
		case id.CgroupInode == 0:
			lim.Found = "the job ended before it could be read"
		default:
			value, err := h.Recorded(id.Cgroup, id.CgroupInode).File(file)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				lim.Found = "the " + controller + " controller is not enabled for the unit"
			case err != nil:
				lim.Found = err.Error()
			default:
				lim.Found = value
				lim.Applied = value != "max" && !strings.HasPrefix(value, "max ")
			}
		}
		out = append(out, lim)
	}
	return out
}
