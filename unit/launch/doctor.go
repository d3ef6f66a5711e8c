package launch

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// Findings is what Examine found.
type Findings struct {
	// Auto is the isolation that a job of this user gets here; empty is none.
	Auto string `json:"auto"`
	// Rungs are in the order in which they are tried, those of the user's own
	// manager first.
	Rungs []RungFinding `json:"rungs"`
	// Notes are what is special about this host.
	Notes []Note `json:"notes"`
}

// RungFinding is what one isolation can do for this user.
type RungFinding struct {
	Isolation string       `json:"isolation"`
	Manager   unit.Manager `json:"manager,omitempty"`
	// Works is true when a job was run in it just now, and its end proven.
	Works bool `json:"works"`
	// Problem says why it does not work.
	Problem string `json:"problem,omitempty"`
	// Hints say what would help.
	Hints []string `json:"hints,omitempty"`
	// ExitProof and TreeProof name the evidence of that job's end.
	ExitProof string `json:"exit_proof,omitempty"`
	TreeProof string `json:"tree_proof,omitempty"`
	// Version and Address are the manager's.
	Version int    `json:"version,omitempty"`
	Address string `json:"address,omitempty"`
	// Place is the cgroup that holds the units.
	Place  string       `json:"place,omitempty"`
	Limits []LimitHolds `json:"limits,omitempty"`
	// Caveats are what holds with less than full strength.
	Caveats []Note `json:"caveats,omitempty"`
}

// LimitHolds says whether a limit takes effect.
type LimitHolds struct {
	Name  string `json:"name"`
	Holds bool   `json:"holds"`
	Why   string `json:"why,omitempty"`
}

// Note is something to know, and what would change it; Hint may be empty.
type Note struct {
	What string `json:"what"`
	Hint string `json:"hint,omitempty"`
}

// probeTimeout bounds the probe of one rung.
const probeTimeout = 15 * time.Second

// Examine looks at what works here: it runs the command `true` in each
// isolation, and leaves nothing of that. caller is whose limits it runs with.
func (l *Launcher) Examine(ctx context.Context, caller keeper.Caller) Findings {
	f := Findings{Rungs: []RungFinding{}, Notes: l.hostNotes()}
	own, other := unit.ManagerUser, unit.ManagerSystem
	if l.cfg.UID == 0 {
		own, other = other, own
	}
	for _, m := range []unit.Manager{own, other} {
		f.Rungs = append(f.Rungs, l.examine(ctx, caller, verify.IsolationService, m), l.examine(ctx, caller, verify.IsolationScope, m))
	}
	f.Rungs = append(f.Rungs, l.examine(ctx, caller, verify.IsolationCgroup, ""), l.examine(ctx, caller, verify.IsolationGroup, ""))
	for _, r := range f.Rungs {
		if r.Works && r.Manager != other {
			f.Auto = r.Isolation
			break
		}
	}
	return f
}

func (l *Launcher) examine(ctx context.Context, caller keeper.Caller, rung string, m unit.Manager) RungFinding {
	f := RungFinding{Isolation: rung, Manager: m}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if managed(rung) {
		if !l.examineManager(ctx, &f) {
			return f
		}
	} else if rung == verify.IsolationCgroup {
		l.examinePlace(&f)
	} else {
		f.Limits = holds(notApplied(allLimits(), "a process group holds no limits"))
		f.Caveats = append(f.Caveats, Note{What: "once the job's keeper and reaper are both killed, an end can be confirmed with verify --accept-weak only"})
	}
	rep, err := l.probe(ctx, caller, rung, m)
	switch {
	case err != nil:
		f.Problem, f.Hints = reason(err), hints(err)
	case !rep.Confirmed || rep.Exit.Code == nil || *rep.Exit.Code != 0:
		f.Problem = "its probe ended unconfirmed, or not with 0"
		for _, miss := range rep.Missing {
			f.Problem += "; " + miss.What + ": " + miss.Looked + " said " + miss.Said
		}
	default:
		f.Works, f.ExitProof, f.TreeProof = true, string(rep.Exit.Source), string(rep.Tree.Source)
	}
	return f
}

// probe runs `true` and returns its report.
func (l *Launcher) probe(ctx context.Context, caller keeper.Caller, rung string, m unit.Manager) (unit.Report, error) {
	env := []string{"PATH=/usr/bin:/bin"}
	path, err := resolve("true", "/", env)
	if err != nil {
		return unit.Report{}, err
	}
	s := &unit.Spec{
		Command: []string{"true"}, Path: path, Dir: "/", Env: env, Umask: caller.Umask, Rlimits: caller.Rlimits,
		Description: "unitward doctor's probe", Isolation: []string{rung}, Manager: m, Grace: time.Second,
		Leftovers: unit.LeftoversKill, Lifetime: unit.LifetimeCall, Stdin: unit.InputNull, Output: unit.OutputNull,
	}
	j, err := l.Start(ctx, s, Stdio{})
	if err != nil {
		return unit.Report{}, err
	}
	defer j.Close()
	defer j.entry.Remove()
	return j.Await(ctx, FactSettled)
}

// examinePlace looks at where raw units would be.
func (l *Launcher) examinePlace(f *RungFinding) {
	parent, err := cgroup.FindParent("")
	if err != nil {
		return // the probe says so
	}
	f.Place = parent.Path
	p, err := parent.Probe("unitward-probe-" + random(4))
	if err != nil {
		return
	}
	f.Limits = holds(p.Limits)
	if !p.Kill {
		f.Caveats = append(f.Caveats, Note{"this kernel has no cgroup.kill: members are frozen and killed one by one", "Linux 5.14 has it"})
	}
	if !p.Freeze {
		f.Caveats = append(f.Caveats, Note{"this kernel has no cgroup.freeze: pause does not work", "Linux 5.2 has it"})
	}
}

func holds(limits []unit.Limit) []LimitHolds {
	out := make([]LimitHolds, len(limits))
	for i, lim := range limits {
		out[i] = LimitHolds{Name: lim.Name, Holds: lim.Applied}
		if !lim.Applied {
			out[i].Why = lim.Found
		}
	}
	return out
}

// allLimits are the limits of a whole job.
func allLimits() []unit.LimitAsked {
	return []unit.LimitAsked{{Name: "MemoryMax"}, {Name: "TasksMax"}, {Name: "CPUQuota"}}
}

func hints(err error) []string {
	var h interface{ Hint() []string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return nil
}
