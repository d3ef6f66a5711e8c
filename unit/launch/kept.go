package launch

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

// kept is a job that processes of ours stay with, in the isolations scope,
// cgroup and group: a reaper, whose child the main process is, and its keeper,
// which is the unitward process that started the job.
type kept struct {
	j  *Job
	at place
	// reaper is nil in a process that is not the job's keeper.
	reaper *keeper.Reaper
	// capture is nil where this process does not keep the job's output.
	capture *capture.Capture
	// holder is nil where this process does not hold the job's terminal.
	holder *terminal.Holder
	// wake holds at most one wake-up; again is until the next look for what
	// nothing wakes for.
	wake  chan struct{}
	again time.Duration
	watch *cgroup.Watch
	// shelter is where a keeper of its own is; nil where it stays.
	shelter *cgroup.Shelter
	// unwatched ends the watches over processes.
	unwatched []func()
}

// place is where the processes of a kept job are.
type place interface {
	// look adds to an observation what is seen there.
	look(ctx context.Context, lk *look)
	// send sends a signal to every process, and says how.
	send(ctx context.Context, signal int) (how string, err error)
	// kill ends every process, whatever its user, and says how.
	kill(ctx context.Context) (how string)
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	// clear removes what is left of a place without a process; true when it
	// did.
	clear(ctx context.Context) bool
	// group is the cgroup of the place; nil when it has none.
	group() *cgroup.Group
	close()
}

// openKept finds the place of a record. What cannot be reached is no error:
// what is seen will say so.
func (l *Launcher) openKept(ctx context.Context, j *Job) *kept {
	k := &kept{j: j, wake: make(chan struct{}, 1)}
	switch j.rec().Identity.Isolation {
	case verify.IsolationScope:
		k.at = l.openScope(ctx, j)
	case verify.IsolationCgroup:
		k.at = &cgroupPlace{j: j}
	default:
		k.at = &groupPlace{k: k}
	}
	for _, p := range []unit.Process{{PID: j.rec().Identity.PID, StartTime: j.rec().Identity.StartTime}, j.rec().Reaper, j.rec().Keeper} {
		if ended, stop, err := keeper.Watch(p); err == nil {
			k.unwatched = append(k.unwatched, stop)
			go k.relay(ended)
		}
	}
	return k
}

// relay wakes who waits for the job once c is closed.
func (k *kept) relay(c <-chan struct{}) {
	<-c
	offer(k.wake)
}

// offer puts a wake-up into a channel that holds at most one.
func offer(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (k *kept) close() {
	k.part()
	if k.holder != nil {
		k.holder.Close()
	}
	if k.capture != nil {
		k.capture.Close()
		k.reaper.Drain() // who still writes is none of this process's any more
	}
	k.unwatch()
	for _, stop := range k.unwatched {
		stop()
	}
	k.at.close()
	k.leave()
}

// part waits for the end of a reaper that has nothing left to wait for: this
// process, which may be about to end, is its parent, and nobody else need reap it.
func (k *kept) part() {
	if k.reaper == nil || k.quiet() || k.reaper.Lost() {
		return
	}
	select {
	case <-k.reaper.Childless():
		return
	default:
	}
	below, err := keeper.Descendants(k.reaper.PID())
	if err != nil || slices.ContainsFunc(below, func(p keeper.Process) bool { return !Ended(unit.Process(p)) }) {
		return // what is kept, or has left the unit, is for the reaper alone
	}
	select {
	case <-k.reaper.Childless():
	case <-time.After(killWait):
	}
}

// leave takes the keeper out of its shelter, at its end.
func (k *kept) leave() {
	if k.shelter != nil {
		ctx, cancel := context.WithTimeout(context.Background(), clearWait)
		defer cancel()
		k.shelter.Leave(ctx)
		k.shelter = nil
	}
}

// orphaned is true when neither the keeper nor the reaper of the job is there
// any more. Until the reaper is known, its maker is the keeper.
func (k *kept) orphaned() bool {
	rec := k.j.rec()
	if k.reaper != nil {
		return false
	}
	if rec.Identity.PID == 0 {
		return Ended(rec.Launcher) && (rec.Keeper.PID == 0 || Ended(rec.Keeper))
	}
	return Ended(rec.Keeper) && Ended(rec.Reaper)
}

// settling gives what comes right after the end of most main processes the time
// to come: one look at it all is then the last.
func (k *kept) settling(ctx context.Context) {
	const most = 2 * time.Millisecond
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-k.reaper.Childless():
	case <-timer.C:
	}
}

// startPoll is how often a record is read while a job is being started.
const startPoll = 5 * time.Millisecond

// starting is true for a job that another process is starting: neither its main
// process nor its isolation need be known yet.
func (j *Job) starting() bool {
	k, ok := j.held.(*kept)
	return ok && k.reaper == nil && j.rec().Sealed == nil && j.rec().Identity.PID == 0
}

// follow reads the record of such a job again, and takes it in hand anew where
// it tells more.
func (j *Job) follow(ctx context.Context) error {
	rec, err := j.entry.Record()
	if err != nil {
		return err
	}
	was := j.rec().Identity
	j.record.Store(rec)
	if rec.Sealed == nil && (rec.Identity.PID != was.PID || rec.Identity.Isolation != was.Isolation) {
		j.held.close()
		j.hold(ctx)
	}
	return j.adopt(ctx)
}

// started waits until who starts the job has done so, or is known to be dead.
func (j *Job) started(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	for j.starting() && bounded.Err() == nil {
		if err := j.follow(ctx); err != nil {
			return err
		}
		if j.starting() {
			wallClock{}.Sleep(bounded, startPoll)
		}
	}
	return ctx.Err()
}

// Ended is true when a recorded process is known to be gone, or is one that its
// parent has not waited for.
func Ended(p unit.Process) bool {
	s, err := proc.Root.Stat(p.PID)
	return errors.Is(err, fs.ErrNotExist) || err == nil && (s.StartTime != p.StartTime || s.Ended())
}

// adopt settles a start that was cut off: nothing of the command exists before
// the record names the main process, which ends when its keeper does.
func (k *kept) adopt(ctx context.Context) error {
	j := k.j
	if j.rec().Identity.PID != 0 || j.rec().Sealed != nil || !pidsHold(j.rec()) || !k.orphaned() {
		return nil
	}
	if p, ok := k.at.(*cgroupPlace); ok && !p.swept(ctx) {
		return nil
	}
	return j.update(func(rec *unit.Record) {
		if rec.Identity.PID == 0 && rec.Sealed == nil {
			failed := rec.StartFailed(now(), errCutOff.Error())
			rec.Sealed = &failed
		}
	})
}

var errCutOff = errors.New("who started it ended before the command was executed")

// noteSteps: whoever acts writes down himself what he does.
func (k *kept) noteSteps(look) {}

// release: nobody is left to write.
func (k *kept) release(ctx context.Context, _ look) error {
	if p, ok := k.at.(*scopePlace); ok {
		p.release(ctx)
	}
	if k.holder != nil {
		k.holder.Finish()
	}
	switch {
	case k.capture != nil:
		k.capture.Drain(drainWait)
		<-k.capture.Ended()
	case k.j.rec().Output == unit.OutputCapture && !k.orphaned():
		k.j.awaitOutput(ctx)
	}
	return nil
}

// keep: the reaper goes on alone. A keeper of its own stays anyway, but for the
// end of a caller that it was told to watch.
func (k *kept) keep() error {
	if k.reaper == nil {
		return k.j.update(func(rec *unit.Record) { rec.Lifetime = unit.LifetimeDetached })
	}
	return k.reaper.Stay()
}
