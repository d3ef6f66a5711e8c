package launch

import (
	"time"

	"github.com/unitward/unitward/unit"
)

// Rest says how a job can be left alone by who would Await it.
type Rest struct {
	// Stirred is closed, or receives, when there is something to do.
	Stirred <-chan struct{}
	// Until is when there is in any case; zero is never.
	Until time.Time
	// Undisturbed, if it is not nil, is to be asked now and then: false says
	// that there is something to do of which nothing told.
	Undisturbed func() bool
}

// Rest says until when there is nothing to do for who would Await the job, so
// that many jobs can be left alone at little cost; ok is false where that cannot
// be said.
func (j *Job) Rest() (r Rest, ok bool) {
	if j.rec.Sealed != nil || j.rec.StartedAt == nil {
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
	if j.rec.Timeout > 0 {
		r.Until = due(*j.rec.StartedAt, j.rec.Timeout)
	}
	return r, true
}

// undisturbed is true for a unit that goes on as far as its manager told, and
// whose main process is seen to live: there is nothing to ask the manager,
// which tells of changes by itself. A process that tends the job's own outlives
// that, and is no sign of it.
func (u *service) undisturbed() bool {
	id := u.j.rec.Identity
	return u.unit != nil && u.unit.GoesOn() && !u.j.rec.Tended && id.PID != 0 && id.StartTime != 0 &&
		!Ended(unit.Process{PID: id.PID, StartTime: id.StartTime})
}
