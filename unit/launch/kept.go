package launch

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
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

func (k *kept) observe(ctx context.Context, _ dbusclient.Depth, lk *look) {
	o, rec := &lk.o, k.j.rec()
	o.Nonce, o.Stopping = rec.Identity.Nonce, rec.Stop.RequestedAt != nil
	// Whether the keeper lives comes first: its last deed is then seen.
	o.KeeperGone = k.orphaned()
	lk.silenced = rec.Output == unit.OutputCapture && k.reaper == nil && rec.Keeper.PID != 0 && Ended(rec.Keeper)
	var exit keeper.Exit
	o.Kept, exit = k.heard()
	// Nobody else removes the place once its keeper is gone.
	if exit.Known || o.KeeperGone {
		k.at.clear(ctx)
	}
	k.at.look(ctx, lk)
	if exit.Known && lk.usage.CPUNanoseconds == nil {
		cpu := uint64(exit.CPU)
		lk.usage.CPUNanoseconds = &cpu
	}
}

// heard is what the reaper saw: as it tells its keeper, or as it wrote it down
// for others.
func (k *kept) heard() (*verify.Kept, keeper.Exit) {
	if k.reaper == nil {
		return k.j.kept()
	}
	r := keeper.Recorded{Exit: k.reaper.Exit()}
	select {
	case <-k.reaper.Childless():
		r.ChildlessAt = k.reaper.ChildlessAt()
	default:
	}
	return k.j.reaped(r), r.Exit
}

// kept is what the job's reaper wrote down; nil when it has written nothing.
func (j *Job) kept() (*verify.Kept, keeper.Exit) {
	f, err := j.entry.OpenKept()
	if err != nil {
		return nil, keeper.Exit{} // no word is no evidence
	}
	defer f.Close()
	r, err := keeper.ReadRecord(f)
	if err != nil {
		return nil, keeper.Exit{}
	}
	return j.reaped(r), r.Exit
}

// reaped is what a reaper saw, as evidence.
func (j *Job) reaped(r keeper.Recorded) *verify.Kept {
	h := &verify.Kept{Nonce: j.rec().Identity.Nonce, Source: "reaper wait"}
	if e := r.Exit; e.Known {
		h.Exited, h.ExitAt = true, e.At
		if e.Status.Signaled() {
			h.Signal, h.CoreDumped = int(e.Status.Signal()), e.Status.CoreDump()
		} else {
			h.Code = e.Status.ExitStatus()
		}
	}
	h.Childless, h.ChildlessAt = !r.ChildlessAt.IsZero(), r.ChildlessAt
	return h
}

// adopt settles a start that was cut off: nothing of the command exists before
// the record names the main process, which ends when its keeper does.
func (k *kept) adopt(ctx context.Context) error {
	j := k.j
	if j.rec().Identity.PID != 0 || j.rec().Sealed != nil || !k.orphaned() {
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

func (k *kept) quiet() bool {
	if k.reaper == nil {
		return false
	}
	select {
	case <-k.reaper.Exited():
		return false
	default:
		return true
	}
}

// sources: the cgroup is watched once the main process has ended, for members
// that do not descend from it. Between that end and the reaper's word on it, of
// which nothing tells another process, there is a moment.
func (k *kept) sources(lk look) (changed, emptied <-chan struct{}) {
	if id := k.j.rec().Identity; k.reaper == nil && !lk.v.Exit.Known && !lk.v.Lost && id.PID != 0 && Ended(unit.Process{PID: id.PID, StartTime: id.StartTime}) {
		k.again = min(max(2*k.again, time.Millisecond), tick)
		time.AfterFunc(k.again, func() { offer(k.wake) })
	}
	if k.watch == nil && lk.o.Cgroup.State == verify.CgroupPopulated && (lk.v.Exit.Known || lk.v.Lost) {
		if w, err := k.at.group().Watch(); err == nil {
			k.watch = w
			return k.wake, atOnce() // it may have emptied before the watch began
		}
	}
	if k.watch != nil {
		emptied = k.watch.C
	}
	return k.wake, emptied
}

func (k *kept) unwatch() {
	if k.watch != nil {
		k.watch.Close()
		k.watch = nil
	}
}

// reach: the record tells who stays with the job, and what became of it.
func (k *kept) reach(context.Context) {
	if k.reaper != nil {
		return // it is we
	}
	if rec, err := k.j.entry.Record(); err == nil {
		k.j.record.Store(rec)
	}
}

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
	if id.Cgroup == "" || id.Isolation == verify.IsolationGroup || Ended(unit.Process{PID: id.PID, StartTime: id.StartTime}) {
		return false
	}
	now, err := cgroupOf(id.PID)
	return err == nil && now != id.Cgroup && !strings.HasPrefix(now, id.Cgroup+"/")
}

func (k *kept) terminate(ctx context.Context, signal int, _ time.Duration) (string, error) {
	how, err := k.at.send(ctx, signal)
	var ended *unit.EndedError
	var denied *unit.AccessError
	switch {
	case k.away():
		return mainAlone, k.j.signalMain(signal)
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
