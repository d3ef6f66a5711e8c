package dbusclient

import (
	"context"
	"path"
)

// cgroupInterfaces are those of the units that can have processes, by their suffix
// (org.freedesktop.systemd1(5)).
var cgroupInterfaces = map[string]string{
	".service": sdSvc, ".scope": sdScope, ".slice": sdName + ".Slice",
	".socket": sdName + ".Socket", ".mount": sdName + ".Mount", ".swap": sdName + ".Swap",
}

// CgroupOf is the cgroup of a unit that need not be one of ours, below the cgroup
// root. It is empty for a unit that is not there or has none at present, and for
// one of a type that has none ever. The error is a *unit.UnknownOutcomeError or
// *unit.NoManagerError when the manager does not answer.
func (c *Client) CgroupOf(ctx context.Context, name string) (string, error) {
	iface, ok := cgroupInterfaces[path.Ext(name)]
	if !ok {
		return "", nil
	}
	var cgroup, state string
	u := c.unit(name)
	if err := u.ask(ctx, []question{{sdUnit, "LoadState", &state, false}, {iface, "ControlGroup", &cgroup, false}}); err != nil {
		return "", c.typed("ask for the cgroup of "+name, name, "", err)
	}
	if state != "loaded" {
		return "", nil
	}
	return cgroup, nil
}
