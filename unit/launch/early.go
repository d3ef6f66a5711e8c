package launch

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// early are the signals of a stop that came before there was a process of the
// command to get them. A manager sends them once: the job would go on until it
// is killed.
type early chan os.Signal

// catchEarly begins to take the signals of a stop, which then do not end this
// process. Once they were passed on nobody looks at what else comes.
func catchEarly() early {
	e := make(early, 4)
	signal.Notify(e, unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	return e
}

// pass sends what came by now to the process, which is not the command yet: one
// that got it itself is none the worse.
func (e early) pass(pid int) error {
	for {
		select {
		case s := <-e:
			if err := unix.Kill(pid, s.(syscall.Signal)); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		default:
			return nil
		}
	}
}
