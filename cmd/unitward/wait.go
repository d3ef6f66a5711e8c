package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (a *app) waitCommand() *cobra.Command {
	var fact, timeout string
	cmd := &cobra.Command{
		Use:   "wait [OPTIONS] NAME...",
		Short: "Wait until jobs have ended, and return what they returned",
		Long: "wait blocks until each job has reached the fact named by --for. With one job the\n" +
			"exit status is the job's own, as for run; with several it is 0 when all of them\n" +
			"completed and 123 when not. 124 says that the time of --timeout ran out, 125 that\n" +
			"a name was wrong, or that nothing of the job ever ran; the other jobs are waited\n" +
			"for all the same.",
		Args:              names,
		ValidArgsFunction: a.completeNames,
	}
	f := cmd.Flags()
	f.StringVar(&fact, "for", string(launch.FactSettled), "wait for this `FACT`: exit, tree or settled")
	f.StringVar(&timeout, "timeout", "", "wait no longer than `TIME`")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "say nothing of what is unconfirmed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.wait(args, launch.Fact(fact), timeout) }
	return cmd
}

func (a *app) wait(args []string, fact launch.Fact, timeout string) error {
	if !slices.Contains([]launch.Fact{launch.FactExit, launch.FactTree, launch.FactSettled}, fact) {
		return usage("cannot wait for %s: one of exit, tree, settled is expected", quote(string(fact)))
	}
	ctx := context.Background()
	if timeout != "" {
		d, err := duration("timeout", timeout)
		if err != nil {
			return err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d)
		defer cancel()
	}
	js, err := a.openJobs(ctx, args)
	if err != nil {
		return err
	}
	defer js.close()
	for _, j := range js.open {
		js.failed(a.waitOne(ctx, js, j, fact))
	}
	return js.result()
}

func (a *app) waitOne(ctx context.Context, js *jobs, j *launch.Job, fact launch.Fact) error {
	j.SeekLeft()
	late := ctx.Err() != nil // another job took all the time
	var rep unit.Report
	var err error
	if late {
		rep, err = j.Look(context.Background())
		late = !reached(rep, fact)
	} else {
		done := a.showElapsed("waiting for job " + j.Name())
		rep, err = j.Wait(ctx, fact)
		done()
		late = errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil
	}
	if !looked(rep) {
		return err
	}
	switch {
	case late:
		fmt.Fprintf(a.Err, "unitward: cannot wait any longer for job %s: %s\n", rep.Name, sentenceOf(rep))
	default:
		a.warn(err)
	}
	if a.json {
		if err := printJSON(a.Out, rep); err != nil {
			return err
		}
	}
	if late {
		js.status(exitTimeout)
		return nil
	}
	if rep.Confirmed && rep.Reason != nil && *rep.Reason == unit.ReasonStartFailed {
		printError(a.Err, fmt.Errorf("cannot tell what job %s returned: its start failed, and nothing of it ran", rep.Name))
		js.status(exitError)
		return nil
	}
	one := waited(rep, fact)
	if one == exitUnconfirmed && !rep.Confirmed {
		a.explain(rep, false)
	}
	if js.several && one != exitOK {
		one = exitUnconfirmed
	}
	js.status(one)
	return nil
}

// reached is true when a report establishes the fact.
func reached(rep unit.Report, fact launch.Fact) bool {
	switch fact {
	case launch.FactExit:
		return rep.Exit.Known
	case launch.FactTree:
		return rep.Tree.Empty
	}
	return rep.Confirmed
}

// waited is the exit status of a wait that reached its fact.
func waited(rep unit.Report, fact launch.Fact) int {
	if fact == launch.FactTree && rep.Tree.Empty && !rep.Exit.Known {
		return exitUnconfirmed
	}
	return statusOf(rep, fact == launch.FactExit)
}
