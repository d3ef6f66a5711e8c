package launch

import (
	"fmt"
	"path"
	"strconv"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

// told takes the manager's own signal of the end for a unit that was unloaded
// before it could be read: no reference held it, because the bus was away.
func (u *service) told(lk *look) {
	end, id := lk.reading.Told, u.j.rec().Identity.InvocationID
	if end == nil || id == "" || end.InvocationID != id || lk.o.Unit.InvocationID == id {
		return
	}
	if lk.o.Recorded != nil {
		if lk.o.Unit.InvocationID == "" {
			lk.o.Unit.MainExitAt = end.At // a recorder knows the end of the last process alone
		}
		return
	}
	r := verify.Recorded{InvocationID: id, ServiceResult: end.Result, At: end.At, Source: "systemd's signal"}
	if r.ExitCode, r.ExitStatus = exitWords(end.Code, end.Status); r.ExitCode == "" {
		return
	}
	if r.At.IsZero() {
		r.At = lk.o.At
	}
	lk.o.Recorded = &r
}

// exitWords are $EXIT_CODE and $EXIT_STATUS (systemd.exec(5)) for ExecMainCode and
// ExecMainStatus, which are si_code and si_status (waitid(2)); empty for what these
// cannot be.
func exitWords(code, status int32) (exitCode, exitStatus string) {
	switch code {
	case 1:
		return "exited", strconv.Itoa(int(status))
	case 2:
		return "killed", verify.SignalName(int(status))
	case 3:
		return "dumped", verify.SignalName(int(status))
	}
	return "", ""
}

// keepExit writes down, in the place of the job's recorder, what the manager says of
// the exit of a job that is not proven to have ended: SIGKILL to all of the unit can
// have ended the recorder too, and the manager forgets the unit with its last
// process, once this one does not hold it any more.
func (j *Job) keepExit(lk look) {
	o, id := lk.o, j.rec().Identity.InvocationID
	if !j.rec().Recorder || o.Recorded != nil || o.Kept != nil && o.Kept.Exited || !o.Unit.Read || id == "" || o.Unit.InvocationID != id {
		return
	}
	said := map[string]string{"INVOCATION_ID": id, "SERVICE_RESULT": o.Unit.Result}
	if said["EXIT_CODE"], said["EXIT_STATUS"] = exitWords(o.Unit.ExecMainCode, o.Unit.ExecMainStatus); said["EXIT_CODE"] == "" {
		return
	}
	at := o.Unit.MainExitAt
	if at.IsZero() {
		at = o.At
	}
	// What fails leaves it to the recorder, or to who looks before the end.
	_ = j.entry.RecordExit(func(name string) string { return said[name] }, OwnerGone, store.Seen{}, at)
}

// recorded reads what the job's recorder wrote down.
func (j *Job) recorded(o *verify.Observation) {
	if !j.rec().Recorder {
		return
	}
	// A record that cannot be believed is no evidence.
	o.Recorded, _ = j.entry.Recorded()
	r, id := o.Recorded, &j.rec().Identity
	if r == nil {
		return
	}
	// Where the unit ended before its identity could be read, its recorder, which
	// is ours and was told of this directory by this start alone, knows it.
	if id.InvocationID == "" {
		id.InvocationID, o.InvocationID = r.InvocationID, r.InvocationID
	}
	// In a cgroup namespace it sees another path.
	if id.CgroupInode == 0 && r.InvocationID == id.InvocationID && path.Base(r.Cgroup) == id.Unit {
		id.Cgroup, id.CgroupInode = r.Cgroup, r.CgroupInode
	}
}

// placed is true when it is known that the unit's cgroup is, or was, the recorded
// one: it was seen there, or the manager says so, or has said so to this process
// before. What is recorded before the start is where it is to be, and a drop-in can
// put it elsewhere. A unit that the manager does not know, or no more, has no cgroup
// anywhere else: it forgets none that has processes (systemd 247, unit_may_gc()).
func (u *service) placed(r dbusclient.Reading) bool {
	id := &u.j.rec().Identity
	same := r.InvocationID != "" && r.InvocationID == id.InvocationID
	switch {
	case id.CgroupInode != 0, r.Read && r.LoadState == "not-found":
		return true
	case same && r.ControlGroup != "":
		id.Cgroup = r.ControlGroup
		u.locate(id)
	case same && r.Slice != "":
		id.Cgroup = u.client.UnitCgroup(r.Slice, id.Unit)
	default:
		return u.place != "" && u.place == id.Cgroup
	}
	u.place = id.Cgroup
	return true
}

// readCgroup looks into the unit's cgroup. That nothing is where the unit need not
// have been is no proof that it has ended.
func (u *service) readCgroup(h *cgroup.Hierarchy, placed bool) verify.Cgroup {
	id := u.j.rec().Identity
	c := readCgroup(h.Recorded(id.Cgroup, id.CgroupInode), u.j.rec())
	if c.State == verify.CgroupGone && !placed {
		c.State, c.Err = verify.CgroupUnavailable, fmt.Sprintf("nobody has seen the unit in %s", id.Cgroup)
	}
	return c
}
