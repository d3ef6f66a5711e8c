package launch

import (
	"context"
	"os"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// OnFacts sets what is called when a fact of the job is first seen to be
// established, its exit or its empty tree, while something else is waited for.
// It is called by the goroutine that looks, and must not call the Job. What
// was established before is not told. Nil tells nobody.
func (j *Job) OnFacts(tell func(unit.Report)) { j.tell = tell }

// Begun is the report of a job that Start has just returned, without a look at
// it: it was executed.
func (j *Job) Begun() unit.Report {
	id := j.rec().Identity
	o := verify.Observation{Name: j.rec().Name, Isolation: id.Isolation, InvocationID: id.InvocationID, Nonce: id.Nonce, At: now(), Identity: j.identity()}
	o.Unit.TasksCurrent = verify.TasksUnset
	rep := j.rec().Report(o, verify.Judge(o))
	rep.State = unit.StateRunning
	return rep
}

// telling tells of what a look has seen for the first time.
func (j *Job) telling(lk look) {
	exit, tree := lk.v.Exit.Known && !j.seenFacts[0], lk.v.Tree.Empty && !j.seenFacts[1]
	j.seenFacts[0], j.seenFacts[1] = j.seenFacts[0] || exit, j.seenFacts[1] || tree
	if j.tell != nil && (exit || tree) {
		j.tell(j.report(lk))
	}
}

// Exceed is Stop for a job that has written more than it may
// (unit.ReasonOutputLimit).
func (j *Job) Exceed(ctx context.Context, grace time.Duration) (unit.Report, error) {
	return j.stop(ctx, grace, byOutput)
}

// OutputDir opens the directory with the captured output of a job, for package
// capture. The errors are those of Open; a job without captured output has a
// directory too.
func (l *Launcher) OutputDir(name string) (*os.File, error) {
	entry, _, err := l.store.Load(name)
	if err != nil {
		return nil, err
	}
	defer entry.Close()
	return entry.OpenDir()
}

// Foresee says which of the rungs a job will probably be held by, as far as
// that can be seen without starting anything; empty is none. A start can still
// find that it does not work.
func (l *Launcher) Foresee(ctx context.Context, m unit.Manager, rungs []string) string {
	for _, rung := range rungs {
		switch {
		case managed(rung):
			if _, err := l.client(ctx, here(m)); err == nil {
				return rung
			}
		case rung == verify.IsolationCgroup:
			if h := l.hierarchy(); h == nil {
				continue
			} else if _, err := h.FindParent(""); err == nil {
				return rung
			}
		default:
			return rung
		}
	}
	return ""
}
