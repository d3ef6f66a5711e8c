package launch

import (
	"context"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// KeptError says that a record stays, because its job is not settled.
type KeptError struct {
	Name  string
	State unit.State
}

func (e *KeptError) Error() string {
	return "cannot release job " + e.Name + ": it is " + string(e.State)
}

// Hint proposes the way out.
func (e *KeptError) Hint() []string {
	if e.State == unit.StateUnknown {
		return []string{"its outcome cannot be proven; once nothing of it is left, unitward reap drops its record (a process group's whose keeper was killed: with --accept-weak)"}
	}
	return []string{"end it first with: unitward stop " + verify.Typed(e.Name)}
}

// Release drops the record of a settled job. The error is a *KeptError for
// one that is not settled, or that of the store.
func (j *Job) Release(ctx context.Context) error {
	switch rep, err := j.Look(ctx); {
	case rep.Confirmed && rep.State == unit.StateSettled:
		return j.entry.Remove() // also where that could not be written down: the disk may be full
	case err != nil:
		return err
	default:
		return &KeptError{Name: j.rec().Name, State: rep.State}
	}
}

// Reap drops the record of a job of which nothing is left: one that is
// settled, or whose outcome is lost while it is proven that no process of it
// lives; weak lets weak evidence say so (verify.GradeWeak), and of a job elsewhere
// that its manager knows nothing of it. It reports whether it did.
func (j *Job) Reap(ctx context.Context, weak bool) (unit.Report, bool, error) {
	j.weak = weak
	rep, err := j.Look(ctx)
	if !rep.Confirmed || rep.State != unit.StateSettled {
		lost := j.last.v.Lost && (j.last.v.Tree.Empty || weak && j.forgottenFar())
		if err != nil || !lost {
			return rep, false, err
		}
	}
	j.removeLeft()
	return rep, true, j.entry.Remove()
}

// Tidy drops settled records that are too old or too many, now and then. What
// cannot be removed is left for the next time.
func (l *Launcher) Tidy() {
	if at := time.Now(); l.store.Due(at) {
		_, _ = l.store.Tidy(at, func(rec *unit.Record) bool {
			return rec.Identity.Host == l.host.machine && rec.Identity.UID == l.cfg.UID
		})
	}
}
