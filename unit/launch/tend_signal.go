package launch

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit/keeper"
)

// tendedSignals are those that who tends a command takes in its stead, if they
// were for the unit's main process alone. What a kernel does with the others to
// one who does not ask for them, or what stops and wakes, cannot be taken.
var tendedSignals = [...]os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

// passWait bounds the wait for a manager whose answer says that it has sent a
// signal to all that it was to send it to.
const passWait = 5 * time.Second

// catchTended begins to take the signals.
func catchTended() <-chan os.Signal {
	signal.Ignore(unix.SIGPIPE)
	c := make(chan os.Signal, 16)
	signal.Notify(c, tendedSignals[:]...)
	return c
}

// passEarly sends what came before there was a process of the command to get it,
// which is not the command yet: one that got it itself is none the worse. A
// manager sends the signal of a stop once, and the job would go on until it is
// killed.
func passEarly(signals <-chan os.Signal, pid int) error {
	for {
		select {
		case s := <-signals:
			if err := unix.Kill(pid, s.(unix.Signal)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		default:
			return nil
		}
	}
}

// pass sends the command what is for the main process alone, as systemctl kill
// --kill-who=main has it.
//
// What is for all of the unit, as a stop's first signal, the command gets by
// itself, and must not get twice. The manager sends such a one to the main
// process first, to the others next, and answers nobody meanwhile. So once it has
// answered, the reaper, another process of the unit, which takes no signal, has it
// pending or will never have it. It has it pending for good: from then on that
// signal is not told apart any more, and not passed.
func (t *tended) pass(getenv func(string) string) {
	main := keeper.Process{PID: t.reaper.MainPID()}
	var err error
	if main.StartTime, err = keeper.StartTime(main.PID); err != nil {
		return // it has ended, and needs none
	}
	for {
		select {
		case <-t.reaper.Exited():
			return
		case s := <-t.signals:
			n, _ := s.(unix.Signal)
			if t.alone(n, getenv) {
				_ = main.Signal(n) // who is gone needs none
			}
		}
	}
}

// alone is true for a signal that this process has got, and that is not for all
// of the unit.
func (t *tended) alone(n unix.Signal, getenv func(string) string) bool {
	if t.forAll(n) {
		return false // mostly so with a stop: then the manager need not be asked
	}
	ctx, cancel := context.WithTimeout(context.Background(), passWait)
	defer cancel()
	c, err := dbusclient.Dial(ctx, t.h.Manager, dbusclient.Environment{Getenv: getenv, UID: os.Geteuid()})
	if err != nil {
		return false // nobody says for whom it is
	}
	c.Close()
	return !t.forAll(n)
}

// forAll is true for a signal that the reaper has got too, or of which that is not
// known.
func (t *tended) forAll(n unix.Signal) bool {
	pending, err := proc.Root.Pending(t.reaper.PID())
	return err != nil || pending&(1<<(n-1)) != 0
}
