package launch

import (
	"errors"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// catchTended begins to take the signals of a stop, for passEarly, and ignores
// others that would end who tends a command.
func catchTended() <-chan os.Signal {
	signal.Ignore(unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE)
	c := make(chan os.Signal, 4)
	signal.Notify(c, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	return c
}

// leaveTended ends that: the command gets by itself what is for all of the unit.
// Whoever takes a signal may need a thread for it, and a job that has come to its
// TasksMax= leaves none: this runtime would end with it.
func leaveTended() {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
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
