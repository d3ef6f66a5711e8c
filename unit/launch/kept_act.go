package launch

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

func (k *kept) actable(op string, lk look) error {
	rec := k.j.rec()
	switch {
	case lk.o.Cgroup.State == verify.CgroupReplaced:
		return &unit.IdentityError{Name: rec.Name, Detail: "another cgroup stands at " + lk.o.Cgroup.Path}
	case rec.Identity.PID == 0:
		return errors.New("cannot " + op + " job " + rec.Name + ": its start was not recorded to its end")
	case lk.o.Group.State == verify.GroupGone && lk.o.KeeperGone && len(lk.o.Group.Scan.Members) > 0:
		return &markedError{op: op, name: rec.Name, left: lk.o.Group.Scan.Members}
	case lk.v.Tree.Empty && !k.away(), lk.o.Group.State == verify.GroupGone && lk.o.KeeperGone:
		return &unit.EndedError{Op: op, Name: rec.Name}
	}
	return nil
}

// mainAlone is how a signal to a main process that is away is told of.
const mainAlone = "to the main process, which has left its unit, and to who is in that"

// away is true when the main process has left its unit and lives: su(1) takes
// its own to a session, by pam_systemd.
func (k *kept) away() bool {
	id := k.j.rec().Identity
	if id.Cgroup == "" || id.Isolation == verify.IsolationGroup {
		return false
	}
	now, err := cgroupOf(id.PID)
	if err != nil || now == id.Cgroup || strings.HasPrefix(now, id.Cgroup+"/") {
		return false
	}
	// What is about to end is in the root of a v1 hierarchy, and then in a cgroup
	// that is gone.
	s, err := proc.Root.Stat(id.PID)
	return err == nil && s.StartTime == id.StartTime && !s.Exiting
}

func (k *kept) terminate(ctx context.Context, signal int, _ time.Duration) (string, error) {
	how, err := k.at.send(ctx, signal)
	var ended *unit.EndedError
	var denied *unit.AccessError
	switch {
	case k.away():
		if err := k.j.signalMain(signal); err != nil && !errors.As(err, &ended) {
			return mainAlone, err
		}
		return mainAlone, nil // it can have ended meanwhile
	case errors.As(err, &ended):
		return "nobody was left", nil
	case errors.As(err, &denied):
		// Of another user's process: the others have it, and KILL goes another
		// way.
		return how + ", and not all could be reached: " + err.Error(), nil
	}
	if err != nil || signal == int(unix.SIGCONT) {
		return how, err
	}
	// Whoever is stopped or frozen is to heed it now. Where that fails, as on a
	// hierarchy on which the manager freezes nothing, KILL comes all the same.
	if err := k.at.resume(ctx); err != nil && !errors.As(err, &ended) && !errors.As(err, &denied) {
		how += ", and not resumed: " + err.Error()
	}
	return how, nil
}

func (k *kept) kill(ctx context.Context, _ look) string {
	how := k.at.kill(ctx)
	if k.away() {
		how = mainAlone
		if err := k.j.signalMain(sigKill); err != nil {
			how = err.Error()
		}
	}
	if k.reaper != nil {
		k.reaper.End()
	}
	return how
}

func (k *kept) signal(ctx context.Context, who unit.Who, signal int) error {
	if who == unit.WhoAll {
		_, err := k.at.send(ctx, signal)
		return err
	}
	return k.j.signalMain(signal)
}

// signalMain sends a signal to the job's own main process, which no manager
// knows as such.
func (j *Job) signalMain(signal int) error {
	id := j.rec().Identity
	err := keeper.Process{PID: id.PID, StartTime: id.StartTime}.Signal(unix.Signal(signal))
	if errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) {
		return &unit.EndedError{Op: "signal", Name: j.rec().Name}
	}
	return err
}

func (k *kept) forward(ctx context.Context, who unit.Who, signal int) error {
	return k.signal(ctx, who, signal)
}

func (k *kept) pause(ctx context.Context) error { return k.at.pause(ctx) }

func (k *kept) resume(ctx context.Context) error { return k.at.resume(ctx) }
