package launch

import (
	"context"
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// forward: the name can be another unit's by now, which a connection that was
// made anew cannot know. While no manager can be reached it is sent by us; a
// signal that comes twice does less harm than one that is lost.
func (u *service) forward(ctx context.Context, who unit.Who, signal int) error {
	if who == unit.WhoMain && u.j.rec().Tended {
		return u.j.signalMain(signal)
	}
	tried, cancel := context.WithTimeout(ctx, u.j.patience(forwardWait))
	defer cancel()
	if u.j.rec().Identity.Far != nil {
		return u.forwardFar(tried, who, signal)
	}
	err := u.forwardKnown(tried, who, signal)
	var ended *unit.EndedError
	var other *unit.IdentityError
	if err == nil || errors.As(err, &ended) || errors.As(err, &other) {
		return err
	}
	return u.sendAlone(who, signal)
}

// forwardKnown sends a signal by the manager, where the unit is seen to be the
// job's.
func (u *service) forwardKnown(tried context.Context, who unit.Who, signal int) error {
	rec := u.j.rec()
	id, err := u.unit.InvocationID(tried)
	switch {
	case err == nil && id == rec.Identity.InvocationID && id != "":
		return u.unit.Kill(tried, who, signal)
	case err == nil && id == "":
		return &unit.EndedError{Op: "signal", Name: rec.Name}
	case err == nil:
		return &unit.IdentityError{Name: rec.Name, Detail: "InvocationID is " + id + ", recorded was " + rec.Identity.InvocationID}
	}
	return err
}

// sendAlone sends a signal without a manager: to the recorded main process, or
// to every member of the recorded cgroup.
func (u *service) sendAlone(who unit.Who, signal int) error {
	id := u.j.rec().Identity
	ended := &unit.EndedError{Op: "signal", Name: u.j.rec().Name}
	if who == unit.WhoMain {
		if id.PID == 0 || id.StartTime == 0 {
			return ended
		}
		err := keeper.Process{PID: id.PID, StartTime: id.StartTime}.Signal(unix.Signal(signal))
		if errors.Is(err, unix.ESRCH) {
			return ended
		}
		return err
	}
	return u.j.signalMembers(signal)
}

// signalMembers sends a signal, without a manager, to every member of the recorded
// cgroup, and thaws it. The error is a *unit.EndedError when that is gone.
func (j *Job) signalMembers(signal int) error {
	h, id := j.hierarchy(), j.rec().Identity
	if h == nil {
		return cgroup.ErrNoHierarchy
	}
	raw, err := h.Attach(id.Cgroup, id.CgroupInode)
	if errors.Is(err, fs.ErrNotExist) {
		return &unit.EndedError{Op: "signal", Name: j.rec().Name}
	}
	if err != nil {
		return err
	}
	defer raw.Close()
	if _, err := raw.Signal(unix.Signal(signal)); err != nil {
		return err
	}
	return raw.ThawAll()
}

// sentAlone is how signalMembers is told of.
const sentAlone = "to each member of the cgroup, without the manager"

// alone ends the job as far as that can be asked for without a manager: see
// terminate.
func (j *Job) alone(signal int) (string, error) {
	err := j.signalMembers(signal)
	if err == nil {
		err = j.signalMembers(int(unix.SIGCONT))
	}
	var ended *unit.EndedError
	if errors.As(err, &ended) {
		err = nil
	}
	return sentAlone, err
}

// unreachedError says that a manager which is needed cannot be reached.
type unreachedError struct{ op, name, why string }

func (e *unreachedError) Error() string {
	return "cannot " + e.op + " job " + e.name + ": " + e.why
}
