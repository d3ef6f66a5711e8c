package serve

import (
	"context"
	"errors"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

const (
	// retryPause is the time between two attempts to wait for a job, such as one
	// whose record cannot be read, and maxRetries how many may fail one after the
	// other. A wait that lasts for lastingTime was none that failed.
	retryPause  = time.Second
	maxRetries  = 10
	lastingTime = 10 * time.Second
	// restTime is when it is first looked whether a job that rests was disturbed,
	// without anybody having told so; each time twice as long passes until the
	// next look, at most maxRest. A manager that has gone and come back tells.
	restTime = time.Second
	maxRest  = 10 * time.Second
)

// order is what a keeper is asked to do.
type order struct {
	// promote detaches the job; else it is stopped, with grace. exceeded is
	// for a job that wrote too much.
	promote, exceeded bool
	grace             time.Duration
	// sparing is for a stop that is not meant for a job that has been detached by
	// the time that its keeper hears of it.
	sparing bool
	// answer gets one outcome.
	answer chan outcome
}

// errSpared answers a stop that a job was not meant for any more.
var errSpared = errors.New("it has been detached")

// outcome is what came of waiting or acting. A report without a schema is none.
type outcome struct {
	rep unit.Report
	err error
	// final is true when nothing more can be learned of the job.
	final bool
}

// keep stays with the job until nothing more can be learned of it. It does one
// thing at a time: it waits, or it stops the job.
func (j *job) keep(h *launch.Job) {
	defer h.Close()
	h.OnFacts(j.learn)
	k := &keeping{j: j, h: h, do: j.attend(h), rests: true}
	for {
		if k.rests {
			k.rest()
		} else if !k.turn() {
			return
		}
	}
}

// rest waits as long as nobody needs to do anything for the job: on a small
// stack, and with no goroutine more. There can be many such jobs.
func (k *keeping) rest() {
	k.rests = false
	r, ok := k.h.Rest()
	if !ok || !k.j.mine {
		return
	}
	var late, look <-chan time.Time
	pause := restTime
	if !r.Until.IsZero() {
		timer := time.NewTimer(time.Until(r.Until))
		defer timer.Stop()
		late = timer.C
	}
	var again *time.Timer
	if r.Undisturbed != nil {
		again = time.NewTimer(pause)
		defer again.Stop()
		look = again.C
	}
	for {
		select {
		case <-look:
			if r.Undisturbed() {
				pause = min(2*pause, maxRest)
				again.Reset(pause)
				continue
			}
		case <-r.Stirred:
			if r.Undisturbed != nil && r.Undisturbed() {
				continue
			}
		case <-late:
		case o := <-k.j.orders:
			k.obey(o)
		}
		return
	}
}

// turn does one thing; false when the job is over.
func (k *keeping) turn() bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan outcome, 1)
	k.began = time.Now()
	go func() { result <- k.do(ctx) }()
	r, more := k.hear(result, cancel)
	if !more {
		k.j.finish(r.rep)
		k.answer(r)
	}
	return more
}

// keeping is the keeper's state.
type keeping struct {
	j *job
	h *launch.Job
	// do is what it does now.
	do func(context.Context) outcome
	// rests is true when that can be put off until something happens.
	rests bool
	// killAt is when the stop that is under way kills; zero for none. waiters
	// want to know what came of it.
	killAt  time.Time
	waiters []chan outcome
	// began is when it began to do that, and retries how many waits in a row have
	// failed.
	began   time.Time
	retries int
}

func (k *keeping) answer(r outcome) {
	for _, c := range k.waiters {
		c <- r
	}
	k.waiters, k.killAt = nil, time.Time{}
}

// hear waits for the result of what is being done, or for an order that
// changes it. more is false when the job is over.
func (k *keeping) hear(result <-chan outcome, cancel func()) (r outcome, more bool) {
	for {
		select {
		case r := <-result:
			return k.heard(r)
		case o := <-k.j.orders:
			if !o.promote && !k.killAt.IsZero() && !time.Now().Add(o.grace).Before(k.killAt) {
				// The stop that is under way is no slower.
				k.waiters = append(k.waiters, o.answer)
				continue
			}
			if o.promote && !k.killAt.IsZero() {
				o.answer <- outcome{err: fail(CodeEnded, KindEnded, "cannot promote job "+k.j.name+": it is being stopped")}
				continue
			}
			cancel()
			if r := <-result; r.final {
				k.waiters = append(k.waiters, o.answer)
				return r, false
			}
			k.obey(o)
			return outcome{}, true
		}
	}
}

// obey changes what is to be done next. Nothing is being done.
func (k *keeping) obey(o *order) {
	switch {
	case o.promote:
		o.answer <- k.promote()
	case o.sparing && k.j.isDetached():
		o.answer <- outcome{err: errSpared}
	default:
		k.waiters, k.killAt = append(k.waiters, o.answer), time.Now().Add(o.grace)
		k.do = k.stop(o)
		return
	}
	k.do, k.rests = k.j.attend(k.h), true
}

// heard takes a result that came by itself.
func (k *keeping) heard(r outcome) (outcome, bool) {
	if r.final {
		return r, false
	}
	stopped := !k.killAt.IsZero() // what has become of a stop is for who wanted it
	k.answer(r)
	switch {
	case stopped:
	case r.err == nil || time.Since(k.began) >= lastingTime:
		k.retries = 0
	default:
		k.retries++
	}
	if k.retries > maxRetries {
		r.rep = k.j.report()
		return r, false // its record is gone, or is somebody else's
	}
	attend, pause := k.j.attend(k.h), r.err != nil && !stopped
	k.do = func(ctx context.Context) outcome {
		if pause {
			select {
			case <-time.After(retryPause):
			case <-ctx.Done():
			}
		}
		return attend(ctx)
	}
	return r, true
}

func (k *keeping) stop(o *order) func(context.Context) outcome {
	return func(ctx context.Context) outcome {
		stop := k.h.Stop
		if o.exceeded {
			stop = k.h.Exceed
		}
		rep, err := stop(ctx, o.grace)
		return outcome{rep, err, rep.Confirmed}
	}
}

func (k *keeping) promote() outcome {
	rep, detached, err := k.h.Detach(context.Background())
	switch {
	case err != nil:
		return outcome{err: err}
	case !detached:
		return outcome{err: &unit.EndedError{Op: "promote", Name: k.j.name}}
	}
	k.j.mu.Lock()
	k.j.detached, k.j.rep = true, rep
	k.j.mu.Unlock()
	return outcome{rep: rep}
}

// attend waits for the job's end, and does for a job of this server what no
// manager does.
func (j *job) attend(h *launch.Job) func(context.Context) outcome {
	return func(ctx context.Context) outcome {
		wait, fact := h.Wait, launch.FactSettled
		if j.mine {
			wait = h.Await
			if j.leftovers == unit.LeftoversKeep {
				fact = launch.FactExit
			}
		}
		rep, err := wait(ctx, fact)
		if err == nil && !rep.Confirmed {
			if j.mine && j.leftovers == unit.LeftoversKeep && !rep.Tree.Empty {
				err = j.leave(h, rep)
			}
			if err == nil {
				rep, err = h.Wait(ctx, launch.FactSettled)
			}
		}
		return outcome{rep, err, rep.Confirmed || err == nil}
	}
}

// leave lets what is left of the job outlive the server. rep is what its keeper
// saw of it; by its record it may be known a moment later.
func (j *job) leave(h *launch.Job, rep unit.Report) error {
	j.s.reached(aboutToLeave)
	j.mu.Lock()
	before := j.detached
	j.detached = true
	j.mu.Unlock()
	if !before {
		if err := h.Keep(); err != nil {
			return err
		}
	}
	j.keptOnce.Do(func() {
		j.learn(rep)
		close(j.kept)
	})
	return nil
}
