package launch

import (
	"slices"

	"github.com/unitward/unitward/unit"
)

// begin records who wants the end, and the first step to it, before anything is
// done; an empty action is none yet. What the job's own terms demand was asked for
// with the job.
func (j *Job) begin(by, action string) error {
	at := now()
	return j.note(func(rec *unit.Record) {
		if rec.Sealed != nil {
			return
		}
		if rec.Stop.RequestedAt == nil {
			rec.Stop.By = &by
			if by != byTimeout && by != byLeftovers && by != byOutput {
				rec.Stop.RequestedAt = &at
			}
		}
		if action != "" {
			rec.Stop.Add(unit.Step{At: at, Action: action})
		}
	})
}

// step records what is about to be done: whoever sees what comes of it then knows
// of it.
func (j *Job) step(action string) error {
	at := now()
	return j.note(func(rec *unit.Record) {
		if rec.Sealed == nil {
			rec.Stop.Add(unit.Step{At: at, Action: action})
		}
	})
}

// took adds what there is to say of the last step of an action, and drops one that
// failed.
func (j *Job) took(action, detail string, failed error) error {
	if detail == "" && failed == nil {
		return nil
	}
	return j.note(func(rec *unit.Record) {
		all := []*unit.Stop{&rec.Stop}
		if rec.Sealed != nil {
			all = append(all, &rec.Sealed.Stop)
		}
		for _, stop := range all {
			i := len(stop.Steps) - 1
			for i >= 0 && stop.Steps[i].Action != action {
				i--
			}
			switch {
			case i < 0:
			case failed != nil:
				stop.Steps = slices.Delete(slices.Clone(stop.Steps), i, i+1)
			default:
				stop.Steps[i].Detail = detail
			}
		}
	})
}

// note changes the record, in this process also where it cannot be written.
func (j *Job) note(change func(*unit.Record)) error {
	err := j.update(change)
	if err != nil {
		change(j.rec())
	}
	return err
}

// update changes the record on disk, and as this process has it. A job of
// lifetime call is its caller's, who can go on with what he knows: that
// nothing can be written down is said at its end.
func (j *Job) update(change func(*unit.Record)) error {
	rec, err := j.entry.Update(false, change)
	if err != nil {
		if j.rec().Lifetime == unit.LifetimeCall && j.rec().Launcher == j.l.self {
			change(j.rec())
			return nil
		}
		return err
	}
	j.record.Store(rec)
	return nil
}
