package launch

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/unitward/unitward/unit"
)

// Findings is what Examine found.
type Findings struct {
	Managers []ManagerFinding `json:"managers"`
	// Cgroup2 says whether our own read of cgroups is possible.
	Cgroup2 string `json:"cgroup2"`
}

// ManagerFinding is what one manager can do for this user.
type ManagerFinding struct {
	Manager unit.Manager `json:"manager"`
	Works   bool         `json:"works"`
	// Problem says why it does not work.
	Problem string `json:"problem,omitempty"`
	// Hints say what would help.
	Hints   []string `json:"hints,omitempty"`
	Version int      `json:"version,omitempty"`
	Address string   `json:"address,omitempty"`
	// ExitProof and TreeProof name the evidence that is to be had.
	ExitProof string       `json:"exit_proof,omitempty"`
	TreeProof string       `json:"tree_proof,omitempty"`
	Limits    []LimitHolds `json:"limits,omitempty"`
	// Lingers is true when a user manager outlives the last login.
	Lingers bool `json:"lingers,omitempty"`
}

// LimitHolds says whether a limit takes effect in a manager's units.
type LimitHolds struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	Why   string `json:"why,omitempty"`
}

// Examine looks at what works here. It starts and changes nothing.
func (l *Launcher) Examine(ctx context.Context) Findings {
	f := Findings{Cgroup2: "not mounted: the manager's word is the only evidence of an empty unit"}
	if h := l.hierarchy(); h != nil {
		f.Cgroup2 = "mounted at " + h.Mount()
	}
	managers := []unit.Manager{unit.ManagerUser, unit.ManagerSystem}
	if l.cfg.UID == 0 {
		slices.Reverse(managers)
	}
	for _, m := range managers {
		f.Managers = append(f.Managers, l.examine(ctx, m))
	}
	return f
}

func (l *Launcher) examine(ctx context.Context, m unit.Manager) ManagerFinding {
	f := ManagerFinding{Manager: m}
	c, err := l.client(ctx, m)
	if err != nil {
		f.Problem = err.Error()
		var none *unit.NoManagerError
		if errors.As(err, &none) {
			f.Hints = none.Hint()[:1] // the second asks for what this is
		}
		return f
	}
	f.Works, f.Version, f.Address = true, c.Version(), c.Address()
	f.ExitProof = "ExecMainCode, held by a reference"
	if !c.References() {
		f.ExitProof = "the job's recorder (a private socket holds no reference)"
	}
	f.TreeProof = `our own read of the cgroup, or ControlGroup="" after the exit`
	if l.hierarchy() == nil {
		f.TreeProof = `ControlGroup="" after the exit`
	}
	have, why := l.controllers(c)
	for _, name := range []string{"MemoryMax", "TasksMax", "CPUQuota"} {
		controller, _ := controllerOf(name)
		lim := LimitHolds{Name: name, Holds: slices.Contains(have, controller)}
		if !lim.Holds {
			lim.Why = "the " + controller + " controller is not delegated"
			if why != "" {
				lim.Why = why
			}
		}
		f.Limits = append(f.Limits, lim)
	}
	if m == unit.ManagerUser {
		f.Lingers = lingers(l.cfg.UID)
	}
	if m == unit.ManagerSystem && l.cfg.UID != 0 {
		f.Hints = []string{"an ordinary user needs the polkit action org.freedesktop.systemd1.manage-units for --system"}
	}
	return f
}

// lingers reports whether the user's manager outlives logins
// (loginctl(1), enable-linger).
func lingers(uid int) bool {
	u, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join("/var/lib/systemd/linger", u.Username))
	return err == nil
}
