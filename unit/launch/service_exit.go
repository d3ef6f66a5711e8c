package launch

import (
	"strconv"

	"github.com/unitward/unitward/verify"
)

// told takes the manager's own signal of the end for a unit that was unloaded
// before it could be read: no reference held it, because the bus was away.
func (u *service) told(lk *look) {
	end, id := lk.reading.Told, u.j.rec.Identity.InvocationID
	if end == nil || id == "" || end.InvocationID != id || lk.o.Recorded != nil || lk.o.Unit.InvocationID == id {
		return
	}
	r := verify.Recorded{InvocationID: id, ServiceResult: end.Result, At: end.At, Source: "systemd's signal"}
	switch end.Code {
	case 1:
		r.ExitCode, r.ExitStatus = "exited", strconv.Itoa(int(end.Status))
	case 2, 3:
		r.ExitCode, r.ExitStatus = "killed", verify.SignalName(int(end.Status))
		if end.Code == 3 {
			r.ExitCode = "dumped"
		}
	default:
		return
	}
	if r.At.IsZero() {
		r.At = lk.o.At
	}
	lk.o.Recorded = &r
}

// recorded reads what the job's recorder wrote down.
func (j *Job) recorded(o *verify.Observation) {
	if !j.rec.Recorder {
		return
	}
	// A record that cannot be believed is no evidence.
	o.Recorded, _ = j.entry.Recorded()
	if o.Recorded != nil && j.rec.Identity.InvocationID == "" {
		// The unit ended before its identity could be read. Its recorder,
		// which is ours and was told of this directory by this start alone,
		// knows it.
		j.rec.Identity.InvocationID = o.Recorded.InvocationID
		o.InvocationID = o.Recorded.InvocationID
	}
}
