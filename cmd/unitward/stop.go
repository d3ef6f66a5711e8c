package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (a *app) stopCommand() *cobra.Command {
	var grace, owner string
	var noWait bool
	cmd := &cobra.Command{
		Use:   "stop [OPTIONS] NAME... | --owner LABEL",
		Short: "End jobs, all of each, and prove it",
		Long: "stop sends TERM to every process of a job, waits for the grace, sends KILL to the\n" +
			"whole unit, and returns when it is proven that nothing is left: with 0, or with\n" +
			"123 when the proof is missing. A job that had already ended says so. With --owner\n" +
			"it ends every job of an owner, and says of which the end is not proven. A stop\n" +
			"that is killed goes on: KILL comes from who stays with the job.\n\n" +
			"With --no-wait it writes the stop down, sends TERM, leaves KILL after the grace\n" +
			"to who stays with the job, and returns with 0: nothing is proven then, and wait\n" +
			"or status say what has come of it. The manager of a service keeps to the grace\n" +
			"that the job was started with, and at least to 2 seconds: another --grace is\n" +
			"refused there, but for 0, which kills at once.",
		Args: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("owner") {
				return names(cmd, args)
			}
			if len(args) > 0 {
				return usage("cannot stop %s: --owner names the jobs", quote(args[0]))
			}
			return nil
		},
		ValidArgsFunction: a.completeNames,
	}
	cmd.Flags().StringVar(&grace, "grace", "", "wait `TIME` between TERM and KILL (default: the job's own)")
	cmd.Flags().StringVar(&owner, "owner", "", "end all jobs with this owner's `LABEL`")
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "print nothing but errors")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the stop is asked for, and goes on by itself")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.stop(args, grace, owner, noWait) }
	return cmd
}

func (a *app) stop(args []string, grace, owner string, noWait bool) error {
	var asked *time.Duration
	if grace != "" {
		d, err := duration("grace", grace)
		if err != nil {
			return err
		}
		asked = &d
	}
	if owner != "" {
		return a.stopOwner(owner, asked, noWait)
	}
	if noWait {
		return a.each(args, func(ctx context.Context, js *jobs, j *launch.Job) error {
			before := j.Record().Sealed != nil
			rep, err := j.Entrust(ctx, asked)
			if err != nil && !looked(rep) {
				return err
			}
			return cmp.Or(err, a.printEntrusted(js, rep, before))
		})
	}
	return a.each(args, func(ctx context.Context, js *jobs, j *launch.Job) error {
		d := j.Record().Grace
		if asked != nil {
			d = *asked
		}
		before := j.Record().Sealed != nil
		j.SeekLeft()
		rep, err := j.Stop(ctx, d)
		if err != nil && !rep.Confirmed {
			return err
		}
		if !rep.Confirmed {
			js.status(exitUnconfirmed)
		}
		// It may have ended and not been written down.
		return cmp.Or(a.printStop(rep, before), err)
	})
}

// tellLeft names what was seen to leave the job's unit, as su(1) makes it: no proof
// speaks of it.
func (a *app) tellLeft(rep unit.Report) {
	if len(rep.LeftUnit) > 0 {
		fmt.Fprintf(a.Err, "unitward: job %s: %d left its unit, and may go on:\n%s", rep.Name, len(rep.LeftUnit), leftLines("  ", rep))
	}
}

// asked is true for a job that is to end, and which has not been seen to.
func asked(rep unit.Report) bool { return rep.State == unit.StateStopping }

// printEntrusted says that a stop goes on by itself, or why there is nothing that
// could.
func (a *app) printEntrusted(js *jobs, rep unit.Report, before bool) error {
	switch {
	case !asked(rep) && !rep.Confirmed:
		js.status(exitUnconfirmed)
		return a.printStop(rep, before)
	case !asked(rep) || a.json:
		return a.printStop(rep, before)
	case a.quiet:
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s: asked to stop\n", rep.Name)
	return err
}

// printStop says what a stop did; before is true when it came too late to do
// anything.
func (a *app) printStop(rep unit.Report, before bool) error {
	switch {
	case a.json:
		return printJSON(a.Out, rep)
	case !rep.Confirmed:
		a.explain(rep, false)
		return nil
	case a.quiet:
		return nil
	}
	a.tellLeft(rep)
	how := "had already ended"
	if n := len(rep.Stop.Steps); !before && rep.Stop.RequestedAt != nil && n > 0 {
		how = "stopped by " + rep.Stop.Steps[n-1].Action
	}
	_, err := fmt.Fprintf(a.Out, "%s: %s, %s\n", rep.Name, how, result(rep))
	return err
}
