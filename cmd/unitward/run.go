package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (a *app) runCommand() *cobra.Command {
	o := &jobOptions{}
	cmd := &cobra.Command{
		Use:   "run [OPTIONS] [--] COMMAND [ARGUMENT...]",
		Short: "Run a job in the foreground, until all of it has ended",
		Long: "run starts COMMAND as a systemd service, forwards signals to it, and returns\n" +
			"when it is proven that the command has ended and nothing of it is left. The\n" +
			"exit status is the command's own, 128+N for signal N, 124 after --timeout, 123\n" +
			"when the proof is missing, 125 when nothing could be run, 126 when the command\n" +
			"cannot be executed and 127 when it was not found.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd, o, args) },
	}
	o.register(cmd, unit.LifetimeCall, unit.InputInherit, unit.OutputInherit)
	cmd.Flags().StringVar(&o.detachAfter, "detach-after", "", "let the job go on in the background after `TIME`, and return its name")
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "say nothing of what is left or unconfirmed")
	return cmd
}

func (a *app) run(cmd *cobra.Command, o *jobOptions, args []string) error {
	s, err := o.spec(cmd, args)
	if err != nil {
		return err
	}
	sink, err := openReport(o.report)
	if err != nil {
		return err
	}
	defer sink.Close()
	l, err := a.launcher()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.Connect(ctx, s)
	sig := catchSignals()
	defer sig.stop()
	sig.starting(ctx, cancel)
	j, err := l.Start(ctx, s, launch.Stdio{In: a.In, Out: a.Out, Err: a.Err})
	if err != nil {
		l.Close()
		if n := sig.first(); n != 0 {
			return &statusError{exitSignal + n}
		}
		return err
	}
	// The connection goes first: it takes every match and reference with it,
	// which nobody need ask for one by one.
	defer j.Close()
	defer l.Close()
	rep, err := a.stay(j, s, sig)
	if err != nil {
		return err
	}
	kept := s.Leftovers == unit.LeftoversKeep
	if kept && !rep.Tree.Empty && !j.Joined() {
		if err := j.Keep(); err != nil {
			return err
		}
	}
	if err := sink.Write(rep); err != nil {
		return err
	}
	if s.DetachAfter > 0 && rep.Lifetime == unit.LifetimeDetached && !rep.Confirmed {
		fmt.Fprintf(a.Err, "unitward: job %s goes on in the background\nhint: await it with: unitward wait %s\n", rep.Name, rep.Name)
		return nil
	}
	a.explain(rep, kept)
	if status := statusOf(rep, kept); status != exitOK {
		return &statusError{status}
	}
	return nil
}

// stay waits for the job. One that another call has started is that call's:
// it gets no signal of ours, and goes on when we end.
func (a *app) stay(j *launch.Job, s *unit.Spec, sig *signals) (unit.Report, error) {
	if !j.Joined() {
		return sig.attend(j, s)
	}
	sig.first()
	sig.stop()
	return j.Wait(context.Background(), launch.FactSettled)
}

// explain says on stderr what an exit status cannot.
func (a *app) explain(rep unit.Report, kept bool) {
	if a.quiet || rep.Confirmed {
		return
	}
	if kept {
		fmt.Fprintf(a.Err, "unitward: job %s: %d kept:%s\nhint: end them with: unitward stop %s\n",
			rep.Name, len(rep.Tree.Members), memberList(rep.Tree.Members), rep.Name)
		return
	}
	fmt.Fprintf(a.Err, "unitward: cannot confirm the end of job %s:\n", rep.Name)
	printMissing(a.Err, rep)
}
