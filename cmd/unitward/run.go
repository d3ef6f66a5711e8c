package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

func (a *app) runCommand() *cobra.Command {
	o, p := &jobOptions{}, &ptyOptions{}
	cmd := &cobra.Command{
		Use:   "run [OPTIONS] [--] COMMAND [ARGUMENT...]",
		Short: "Run a job in the foreground, until all of it has ended",
		Long: "run starts COMMAND as a job, forwards signals to it, and returns when it is\n" +
			"proven that the command has ended and nothing of it is left. The exit status is\n" +
			"the command's own, 128+N for signal N, 124 after --timeout, 123 when the proof\n" +
			"is missing, 125 when nothing could be run, 126 when the command cannot be\n" +
			"executed and 127 when it was not found.\n\n" +
			"Standard output is the command's. With --json run adds nothing to it but an\n" +
			"error, as its last line; the report goes to --report, also as fd:N.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, o, p, args) },
	}
	o.register(cmd, unit.LifetimeCall, unit.InputInherit, unit.OutputInherit)
	cmd.Flags().StringVar(&o.detachAfter, "detach-after", "", "let the job go on in the background after `TIME`, and say its name on standard error")
	p.register(cmd)
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "say nothing of what is left or unconfirmed")
	return cmd
}

func (a *app) run(cmd *cobra.Command, o *jobOptions, p *ptyOptions, args []string) error {
	if told, err := o.told(a.streams); told {
		return err
	}
	command, err := p.command(args)
	if err != nil {
		return err
	}
	s, err := o.spec(cmd, a.caller, command)
	if err != nil {
		return err
	}
	keys, err := p.apply(cmd, s, a.streams)
	if err != nil {
		return err
	}
	if err := o.fits(cmd, s); err != nil {
		return err
	}
	sink, err := openReport(o.report)
	if err != nil {
		return err
	}
	defer sink.Close()
	b, err := a.begin(s, o, sink, keys)
	if err != nil {
		return err
	}
	defer b.close()
	a.tellWhere(b, s)
	// From here on the job has run, whatever else goes wrong: its code comes
	// back, and 125 would say that nothing ran.
	a.warn(b.tty.begin())
	seek := time.AfterFunc(seekAfter, b.job.SeekLeft)
	rep, let, err := a.stay(b, s)
	seek.Stop()
	if b.tty != nil {
		b.sig.untilSignal(b.tty.end)
	}
	if b.sig.leaving && terminal.Is(a.Out) {
		fmt.Fprintln(a.Out) // as after attach
	}
	if b.sig.leaving && !a.quiet {
		fmt.Fprintf(a.Err, "unitward: job %s was stopped: its terminal was left\n", b.job.Name())
	}
	a.warn(err)
	if !looked(rep) {
		return &statusError{exitUnconfirmed}
	}
	// What its time has ended is not kept: the whole unit is being ended.
	kept := s.Leftovers == unit.LeftoversKeep && !timedOut(rep)
	if timedOut(rep) && !rep.Confirmed && !b.job.Joined() {
		rep = a.settle(b, rep)
	}
	if kept && !rep.Tree.Empty && !b.job.Joined() {
		a.warn(b.job.Keep())
	}
	a.warn(sink.Write(rep))
	if let && !rep.Confirmed {
		fmt.Fprintf(a.Err, "unitward: job %s goes on in the background\nhint: await it with: unitward wait %s\n", rep.Name, verify.Typed(string(rep.Name)))
		return nil
	}
	a.explain(rep, kept)
	status := statusOf(rep, kept)
	if status == exitOK || s.IgnoreFailure && status != exitUnconfirmed && failed(rep) {
		return nil
	}
	return &statusError{status}
}

// tellWhere says where to look for a job elsewhere, whose output does not come
// here, while this call waits for it.
func (a *app) tellWhere(b *begun, s *unit.Spec) {
	if !s.Remote.Named() || a.quiet {
		return
	}
	fmt.Fprintf(a.Err, "unitward: job %s is one of %s\n", b.job.Name(), s.Remote)
	if s.Output == unit.OutputJournal {
		fmt.Fprintf(a.Err, "hint: what it writes is shown by: %s\n", journalOf(b.job.Record()))
	}
}

// seekAfter is how long a job runs before it is worth a search for what left its
// unit.
const seekAfter = time.Second

// timedOut is true for a job that was ended because its time was up.
func timedOut(rep unit.Report) bool { return rep.Reason != nil && *rep.Reason == unit.ReasonTimeout }

// failed is true for a command that failed by itself, and was not ended.
func failed(rep unit.Report) bool {
	return rep.Reason != nil && (*rep.Reason == unit.ReasonFailed || *rep.Reason == unit.ReasonSignaled)
}

// stay waits for the job; let is true for one that it lets go on in the background
// after the time that was given for that. One that another call has started is that
// call's: it gets no signal of ours, and goes on when we end.
func (a *app) stay(b *begun, s *unit.Spec) (rep unit.Report, let bool, err error) {
	if !b.job.Joined() {
		rep, err = b.sig.attend(b.job, s, b.tty)
		return rep, s.DetachAfter > 0 && rep.Lifetime == unit.LifetimeDetached, err
	}
	b.sig.first()
	b.sig.stop()
	ctx, cancel := context.Background(), func() {}
	if s.DetachAfter > 0 {
		ctx, cancel = context.WithTimeout(ctx, s.DetachAfter)
	}
	defer cancel()
	rep, err = b.job.Wait(ctx, launch.FactSettled)
	if ctx.Err() != nil && looked(rep) {
		return rep, true, nil
	}
	return rep, false, err
}

// settle waits for the end of all of a job that is being ended, or for a signal, and
// returns what is known then.
func (a *app) settle(b *begun, rep unit.Report) unit.Report {
	b.sig.untilSignal(func(giveUp <-chan struct{}) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-giveUp:
				cancel()
			case <-ctx.Done():
			}
		}()
		r, err := b.job.Wait(ctx, launch.FactSettled)
		if !looked(r) {
			a.warn(err)
			return
		}
		rep = r
	})
	return rep
}

// looked is true for the report of a look at a job, and not for the zero value
// that comes with an error. A report that comes with one holds: what went wrong
// is something else, such as to write it down.
func looked(rep unit.Report) bool { return rep.Schema != "" }

// warn says what went wrong beside what was asked for; nil is nothing.
func (a *app) warn(err error) {
	if err != nil {
		printError(a.Err, err)
	}
}

// explain says on stderr what an exit status cannot.
func (a *app) explain(rep unit.Report, kept bool) {
	if a.quiet {
		return
	}
	a.tellLeft(rep)
	if rep.Confirmed {
		return
	}
	if kept {
		fmt.Fprintf(a.Err, "unitward: job %s: %d kept:%s\nhint: end them with: unitward stop %s\n",
			rep.Name, len(rep.Tree.Members), memberList(rep.Tree.Members), verify.Typed(string(rep.Name)))
		return
	}
	fmt.Fprintf(a.Err, "unitward: cannot confirm the end of job %s:\n", rep.Name)
	printMissing(a.Err, rep)
}
