package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

// attachOptions are how somebody comes to a job's terminal.
type attachOptions struct {
	readOnly, take bool
	keys           detachKeys
}

func (a *app) attachCommand() *cobra.Command {
	o := &attachOptions{}
	cmd := &cobra.Command{
		Use:   "attach [OPTIONS] NAME",
		Short: "Come to the terminal of a job that was started with one",
		Long: "attach shows the terminal of a job of start --pty, from what is on its screen now\n" +
			"on, and types there. The keys of --detach-keys leave it, and the job goes on; so\n" +
			"it does when attach is ended in any other way.\n\n" +
			"Several can be at a terminal, of whom one types, the first that wants to. The\n" +
			"window of whoever types is the job's. When he leaves, the next one types.\n\n" +
			"The exit status is 0 after the keys that leave, and that of wait after the end of\n" +
			"the job.",
		Args:              oneName,
		ValidArgsFunction: a.completeTerminals,
		RunE:              func(_ *cobra.Command, args []string) error { return a.attach(o, args[0]) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.readOnly, "read-only", "r", false, "type nothing, but for the keys that leave")
	f.BoolVar(&o.take, "take", false, "type, also where another does; he watches from then on")
	o.keys.register(cmd, "leave the job when these `KEYS` are typed within a second, or none")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "say nothing of who types and what goes on")
	return cmd
}

func (a *app) attach(o *attachOptions, name string) error {
	keys, err := o.keys.parse()
	if err != nil {
		return err
	}
	if name, err = jobName(name); err != nil {
		return err
	}
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	ctx := context.Background()
	j, err := l.Open(ctx, name)
	if err != nil {
		return err
	}
	defer j.Close()
	visit := terminal.Visit{Write: !o.readOnly, Take: o.take}
	visit.Size, _ = terminal.SizeOf(a.Out, a.In, a.Err)
	sig := catchSignals(false, a.streams)
	sig.catchAll(true)
	remote, err := j.Attach(ctx, visit)
	if err != nil {
		return err
	}
	if visit.Write && !remote.Writes() && !a.quiet {
		fmt.Fprintf(a.Err, "unitward: another types at job %s; he is watched until he leaves\nhint: type instead of him with: unitward attach --take %s\n", name, verify.Typed(name))
	}
	tty, err := visitConsole(a.streams, keys, remote)
	if err != nil {
		remote.Close()
		return err
	}
	err = tty.begin()
	var signal unix.Signal
	left := false
	if err == nil {
		left, signal = sig.visit(tty)
	}
	sig.untilSignal(tty.end)
	switch {
	case err != nil:
		return err
	case signal != 0:
		return &statusError{exitSignal + int(signal)}
	case left:
		if terminal.Is(a.Out) {
			fmt.Fprintln(a.Out) // the job's cursor may be in the midst of a line
		}
		if !a.quiet {
			fmt.Fprintf(a.Err, "unitward: job %s goes on\nhint: come back with: unitward attach %s\n", name, verify.Typed(name))
		}
		return nil
	}
	return a.attended(sig, j)
}

// visit stays until the keys that leave were typed, a signal comes that ends
// processes, or the terminal has nothing more to show.
func (s *signals) visit(tty *console) (left bool, ended unix.Signal) {
	for {
		select {
		case <-tty.left():
			return true, 0
		case <-tty.ended():
			return false, 0
		case n := <-s.c:
			num, _ := n.(unix.Signal)
			switch {
			case tty.heeds(num), num == unix.SIGUSR1, num == unix.SIGUSR2:
			default:
				return false, num
			}
		}
	}
}

// endWait is how long the end of a job may take to be known whose terminal has
// ended.
const endWait = 2 * time.Second

// attended ends as the job did whose terminal has ended, or by a signal that comes
// before that is known.
func (a *app) attended(sig *signals, j *launch.Job) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var rep unit.Report
	var err error
	known := make(chan struct{})
	go func() {
		defer close(known)
		rep, err = endOf(ctx, j)
	}()
	for waiting := true; waiting; {
		select {
		case <-known:
			waiting = false
		case n := <-sig.c:
			switch num, _ := n.(unix.Signal); num {
			case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT:
				cancel()
				<-known
				return &statusError{exitSignal + int(num)}
			}
		}
	}
	if !looked(rep) {
		return err
	}
	a.warn(err)
	a.explain(rep, false)
	if status := statusOf(rep, false); status != exitOK {
		return &statusError{status}
	}
	return nil
}

// endOf waits for the end of a job, and not for long where nothing says that it
// has come.
func endOf(ctx context.Context, j *launch.Job) (unit.Report, error) {
	waited, done := context.WithTimeout(ctx, endWait)
	defer done()
	rep, err := j.Wait(waited, launch.FactExit)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return unit.Report{}, &launch.TerminalError{Name: j.Name(), Why: "its terminal can be shown no longer, and it has not ended", Way: "unitward status " + verify.Typed(j.Name()) + " says what it does"}
	case err != nil || rep.Confirmed:
		return rep, err
	}
	return j.Wait(ctx, launch.FactSettled)
}
