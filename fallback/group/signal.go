package group

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Signal checks the identity and sends a signal to the group, and to those of
// its session that are in groups of their own (a job-control shell's). It does
// not reach a process that made its own session, nor one that is forked while
// it runs: who wants an end repeats it until Look says so.
//
// The errors are those of Check, with nothing sent, and one that wraps
// unix.EPERM when there was a process that may not be signalled; the others
// got it. A group of which one member could be signalled does not tell of
// another that could not (kill(2)).
func (g *Group) Signal(sig unix.Signal) error {
	c, err := g.check()
	if err != nil {
		return err
	}
	var failed error
	sent := false
	switch err := unix.Kill(-g.id.PGID, sig); {
	case err == nil:
		sent = true
	case !errors.Is(err, unix.ESRCH): // it ended just now, or only its session is left
		failed = fmt.Errorf("cannot send signal %d to group %d: %w", sig, g.id.PGID, err)
	}
	for _, s := range c.found {
		if s.PGID == g.id.PGID {
			continue
		}
		switch err := g.signalOne(s.PID, sig); {
		case err == nil:
			sent = true
		case !errors.Is(err, os.ErrProcessDone) && failed == nil:
			failed = err
		}
	}
	if failed == nil && !sent {
		return fmt.Errorf("cannot signal process group %d: %w", g.id.PGID, os.ErrProcessDone)
	}
	return failed
}

// signalOne signals a member of the session that is in another group. The
// process is held while it is looked at, so that it is the one that gets the
// signal.
func (g *Group) signalOne(pid int, sig unix.Signal) error {
	p, err := g.dir.Open(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return os.ErrProcessDone
	}
	if err != nil {
		return err
	}
	defer p.Close()
	s, err := p.Stat()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.ErrProcessDone
	case err != nil:
		return err
	case s.Session != g.id.Session || s.StartTime < g.id.StartTime:
		return os.ErrProcessDone // what was counted has gone, and its number was given away
	}
	return p.Signal(sig)
}
