package launch

import (
	"context"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

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
