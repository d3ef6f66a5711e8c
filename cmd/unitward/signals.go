package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// impatientGrace is what a second SIGINT leaves of the grace.
const impatientGrace = time.Second

// signals are those that reach the process while it stands for a job.
type signals struct {
	c chan os.Signal
	// aborted is the signal that came before the job was there.
	aborted unix.Signal
	// early are those that came then and end nothing.
	early  []os.Signal
	cancel context.CancelFunc
	// unseen forwards every signal, and has no meaning of its own for any.
	unseen bool
	// own are the streams whose terminal's hangup a SIGHUP can tell of.
	own streams
	// leaving is true once the keys that leave the job's terminal were typed.
	leaving bool
}

// catchSignals begins to catch what is forwarded to a job. Each takes the
// runtime 30 to 60 µs, so these are only those that end a start; catchAll
// catches the others.
func catchSignals(unseen bool, own streams) *signals {
	s := &signals{c: make(chan os.Signal, 16), unseen: unseen, own: own}
	s.catch(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	return s
}

// catchAll catches what else is forwarded. Who is unseen, or has a terminal for
// the job, has more of it.
func (s *signals) catchAll(terminal bool) {
	s.catch(unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2)
	if s.unseen || terminal {
		s.catch(unix.SIGWINCH, unix.SIGTSTP, unix.SIGCONT)
	}
}

// catch catches signals, but those that the caller was started to ignore
// (nohup).
func (s *signals) catch(numbers ...unix.Signal) {
	for _, n := range numbers {
		if !signal.Ignored(n) {
			signal.Notify(s.c, n)
		}
	}
}

func (s *signals) stop() { signal.Stop(s.c) }

// starting makes a signal that ends processes cancel a start.
func (s *signals) starting(ctx context.Context, cancel context.CancelFunc) {
	done := make(chan struct{})
	s.cancel = func() { cancel(); <-done }
	go func() {
		defer close(done)
		for {
			select {
			case n := <-s.c:
				if n == unix.SIGWINCH || n == unix.SIGCONT || n == unix.SIGTSTP {
					if !slices.Contains(s.early, n) {
						s.early = append(s.early, n)
					}
					continue // they end nothing
				}
				s.aborted, _ = n.(unix.Signal)
				cancel()
			case <-ctx.Done():
			}
			return
		}
	}()
}

// first is the number of the signal that aborted the start; 0 is none.
func (s *signals) first() int {
	s.cancel()
	return int(s.aborted)
}

// pending are the signals that came while the job was being started. They are not
// put back into the channel: it may be full of what came after them.
func (s *signals) pending() []os.Signal {
	var all []os.Signal
	if n := s.first(); n != 0 {
		all = append(all, unix.Signal(n))
	}
	return append(all, s.early...)
}

// attend waits for the job and forwards to it what comes, as a terminal and
// an init would: INT and QUIT, which a terminal sends to a whole group, to all
// of the job, the others to its main process. What the job makes of it decides
// its end. A second INT stops the job with a short grace, a third at once. What
// concerns the caller's terminal is tty's, where there is one; the keys that
// leave it are as good as a second INT, and so is its hangup once the job has had
// the grace to heed it.
func (s *signals) attend(j *launch.Job, spec *unit.Spec, tty *console) (unit.Report, error) {
	fact := launch.FactSettled
	if spec.Leftovers == unit.LeftoversKeep {
		fact = launch.FactExit
	}
	pending := s.pending()
	next := func() <-chan os.Signal {
		if len(pending) == 0 {
			return s.c
		}
		c := make(chan os.Signal, 1)
		c <- pending[0]
		return c
	}
	var ctx context.Context
	var cancel context.CancelFunc
	renew := func() { ctx, cancel = context.WithCancel(context.Background()) }
	renew()
	defer func() { cancel() }()
	type result struct {
		rep unit.Report
		err error
	}
	ended := make(chan result, 1)
	begin := func(do func(context.Context) (unit.Report, error)) {
		go func() {
			deepen()
			rep, err := do(ctx)
			ended <- result{rep, err}
		}()
	}
	begin(func(ctx context.Context) (unit.Report, error) { return j.Await(ctx, fact) })
	interrupts, left := 0, tty.left()
	interrupt := func() {
		cancel()
		<-ended
		renew()
		grace := impatientGrace
		if interrupts > 2 {
			grace = 0
		}
		begin(func(ctx context.Context) (unit.Report, error) { return j.Interrupt(ctx, min(grace, spec.Grace)) })
	}
	var hungUp, detach <-chan time.Time
	if spec.DetachAfter > 0 {
		timer := time.NewTimer(spec.DetachAfter)
		defer timer.Stop()
		detach = timer.C
	}
	for {
		select {
		case <-detach:
			// The wait looks at the job as this does.
			cancel()
			if r := <-ended; r.err == nil {
				return r.rep, nil
			}
			renew()
			if rep, detached, err := j.Detach(ctx); detached || err != nil {
				return rep, err
			}
			begin(func(ctx context.Context) (unit.Report, error) { return j.Await(ctx, fact) })
		case <-left:
			s.leaving, left, interrupts = true, nil, max(interrupts+1, 2)
			interrupt()
		case <-hungUp:
			hungUp, interrupts = nil, max(interrupts+1, 2)
			interrupt()
		case r := <-ended:
			return r.rep, r.err
		case n := <-next():
			pending = pending[min(1, len(pending)):]
			num, _ := n.(unix.Signal)
			if num == unix.SIGINT && !s.unseen {
				interrupts++
			}
			if num == unix.SIGINT && interrupts > 1 {
				interrupt()
				continue
			}
			if tty != nil && tty.heeds(num) {
				continue
			}
			if num == unix.SIGHUP && hungUp == nil && spec.Lifetime == unit.LifetimeCall && !s.unseen && s.own.hungUp() {
				hungUp = time.After(spec.Grace)
			}
			// A job that has just ended needs no signal: the wait will say so.
			// Where that is what is left of it, the signal is for that.
			forward := func(who unit.Who, n unix.Signal) {
				var ended *unit.EndedError
				if err := j.Forward(ctx, who, int(n)); errors.As(err, &ended) && who == unit.WhoMain {
					_ = j.Forward(ctx, unit.WhoAll, int(n))
				}
			}
			switch num {
			case unix.SIGTSTP:
				suspend(forward)
			case unix.SIGINT, unix.SIGQUIT, unix.SIGWINCH, unix.SIGCONT:
				forward(unit.WhoAll, num)
			default:
				forward(unit.WhoMain, num)
			}
		}
	}
}

// untilSignal does something to its end, or to the next signal that ends
// processes, which it is told of.
func (s *signals) untilSignal(do func(giveUp <-chan struct{})) {
	giveUp, done := make(chan struct{}), make(chan struct{})
	go func() { do(giveUp); close(done) }()
	for {
		select {
		case <-done:
			return
		case n := <-s.c:
			switch n {
			case unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP, unix.SIGUSR1, unix.SIGUSR2:
				continue
			}
			close(giveUp)
			<-done
			return
		}
	}
}
