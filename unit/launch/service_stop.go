package launch

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// terminate: StopUnit also wakes what is stopped, and starts the manager's own
// clock for SIGKILL, which runs on when we are dead; it is TimeoutStopSec=, so
// a longer grace has to do without as long as it can, and so have those beyond the
// number that a manager can stop at once.
func (u *service) terminate(ctx context.Context, signal int, grace time.Duration) (string, error) {
	if grace <= u.j.rec().Grace && u.unit.MayStop() {
		u.thaw(ctx)
		return stoppedUnit, u.unit.Stop(ctx)
	}
	err := u.unit.Kill(ctx, unit.WhoAll, signal)
	u.thaw(ctx)
	if err == nil {
		err = u.unit.Kill(ctx, unit.WhoAll, int(unix.SIGCONT))
	}
	var ended *unit.EndedError
	if errors.As(err, &ended) {
		err = nil
	}
	return killedByManager, err
}

// turn waits until a manager can be told to stop one more. With a thousand to stop,
// the first is known to have ended before the last is told to: the time that each may
// take begins in its turn. next lets the next one; it can be called again.
func (l *Launcher) turn(ctx context.Context) (next func(), err error) {
	select {
	case l.stopping <- struct{}{}:
		return sync.OnceFunc(func() { <-l.stopping }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// over is true for a service of which a look has seen nothing any more, but for
// who is just writing down how it ended.
func (u *service) over(lk look) bool {
	id := u.j.rec().Identity
	if id.PID == 0 || !Ended(unit.Process{PID: id.PID, StartTime: id.StartTime}) {
		return false
	}
	left := lk.v.Tree.Members
	return lk.v.Tree.Empty || len(left) > 0 && !slices.ContainsFunc(left, func(m verify.Member) bool { return !isRecorder(m.Command, u.j.l.cfg.Self) })
}

// isRecorder is true for a command line that is of a recorder, which self is, or of
// what its manager has made to become one: it has the end of its file's name in
// brackets until then (systemd 247 to 262, rename_process_from_path()).
func isRecorder(command, self string) bool {
	name := filepath.Base(self)
	return strings.HasPrefix(command, self+" "+RecordVerb+" ") || command == "("+name[max(0, len(name)-8):]+")"
}

// busy is true for a manager that was heard of a short time ago.
func (u *service) busy() bool {
	return u.client != nil && now().Sub(u.client.HeardAt()) < killWait
}

// thaw lets a paused job go on, so that it can heed the signal of a stop: one
// that does not would spend all its grace asleep. A manager of systemd 257
// refuses to stop what it has frozen ("Cannot stop frozen unit"), so it is told
// first; while it stops a unit it cannot be told, and what it leaves frozen is
// thawed by its cgroup.
func (u *service) thaw(ctx context.Context) {
	h, id := u.j.hierarchy(), u.j.rec().Identity
	if id.Far != nil {
		_ = u.unit.Thaw(ctx) // one that is not frozen stays as it is
		return
	}
	if !u.j.frozen() {
		return
	}
	if u.unit.Thaw(ctx) == nil && !u.j.frozen() {
		return
	}
	if raw, err := h.Attach(id.Cgroup, id.CgroupInode); err == nil {
		_ = raw.ThawAll() // what stays frozen is killed after the grace
		raw.Close()
	}
}

// kill ends every member, and asks the manager only where we cannot. A unit of
// the name that is not the job's is left alone; what is in the recorded cgroup is
// the job's all the same.
func (u *service) kill(ctx context.Context, lk look) string {
	var asked, stopped error
	if !u.lives() {
		asked = u.actable("stop", lk)
	}
	if asked == nil && u.unit.MayStop() {
		// The order matters: a unit that is to stop starts nothing any more. But
		// nobody waits for a manager that does not answer.
		bounded, cancel := context.WithTimeout(ctx, u.j.patience(lookWait))
		stopped = u.unit.Stop(bounded)
		cancel()
	}
	detail, err := u.j.killMembers(ctx)
	var silent *unit.UnknownOutcomeError
	switch {
	case err == nil && stopped != nil && !errors.As(stopped, &silent):
		return stopped.Error()
	case err == nil:
		return detail
	case asked != nil:
		return err.Error()
	}
	var ended *unit.EndedError
	if err := u.unit.Kill(ctx, unit.WhoAll, sigKill); err != nil && !errors.As(err, &ended) {
		return err.Error()
	}
	return killedByManager
}
