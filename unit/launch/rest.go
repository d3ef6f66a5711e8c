package launch

import (
	"time"

	"github.com/unitward/unitward/fallback/proc"
)

// Rest says how a job can be left alone by who would Await it.
type Rest struct {
	// Stirred is closed, or receives, when there may be something to do.
	Stirred <-chan struct{}
	// Until is when there is in any case; zero is never.
	Until time.Time
	// Undisturbed, if it is not nil, is to be asked when Stirred receives, and
	// now and then: true says that there is nothing to do yet.
	Undisturbed func() bool
}

// Rest says until when there is nothing to do for who would Await the job, so
// that many jobs can be left alone at little cost; ok is false where that cannot
// be said.
func (j *Job) Rest() (r Rest, ok bool) {
	if j.rec().Sealed != nil || j.rec().StartedAt == nil {
		return r, false
	}
	switch b := j.held.(type) {
	case *kept:
		if b.reaper == nil || b.capture != nil {
			return r, false
		}
		r.Stirred = b.reaper.Exited()
	case *service:
		if !b.undisturbed() {
			return r, false
		}
		r.Stirred, r.Undisturbed = b.unit.Changed(), b.undisturbed
	default:
		return r, false
	}
	if j.rec().Timeout > 0 {
		r.Until = due(*j.rec().StartedAt, j.rec().Timeout)
	}
	return r, true
}

// undisturbed is true for a unit that goes on as far as its manager told, and
// whose main process is seen to live: there is nothing to ask the manager,
// which tells of changes by itself.
func (u *service) undisturbed() bool {
	return u.unit != nil && u.unit.GoesOn() && u.lives()
}

// lives is true for a unit of which its manager tells, and whose main process is
// seen to live: whatever it is told to do, or does, the manager knows of no exit.
// A process that tends the job's own outlives that, and is no sign of it.
func (u *service) lives() bool {
	id := u.j.rec().Identity
	if u.unit == nil || !u.unit.Told() || u.j.rec().Tended || id.PID == 0 || id.StartTime == 0 || id.Far != nil {
		return false
	}
	s, err := proc.Root.Stat(id.PID) // what cannot be read is no sign of life
	return err == nil && s.StartTime == id.StartTime && !s.Ended()
}
