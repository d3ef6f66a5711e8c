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
			"completed and 123 when not. 124 says that the time of --timeout ran out.",
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
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	jobs, err := openAll(ctx, l, args)
	defer closeAll(jobs)
	if err != nil {
		return err
	}
	status := exitOK
	for _, j := range jobs {
		rep, err := j.Wait(ctx, fact)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
			fmt.Fprintf(a.Err, "unitward: cannot wait any longer for job %s: %s\n", rep.Name, sentenceOf(rep))
			if a.json {
				if err := printJSON(a.Out, rep); err != nil {
					return err
				}
			}
			return &statusError{exitTimeout}
		}
		if err != nil {
			return err
		}
		if a.json {
			if err := printJSON(a.Out, rep); err != nil {
				return err
			}
		}
		one := waited(rep, fact)
		if one == exitUnconfirmed && !rep.Confirmed {
			a.explain(rep, false)
		}
		if len(jobs) > 1 && one != exitOK {
			one = exitUnconfirmed
		}
		status = max(status, one)
	}
	if status != exitOK {
		return &statusError{status}
	}
	return nil
}

// waited is the exit status of a wait that reached its fact.
func waited(rep unit.Report, fact launch.Fact) int {
	if fact == launch.FactTree && rep.Tree.Empty && !rep.Exit.Known {
		return exitUnconfirmed
	}
	return statusOf(rep, fact == launch.FactExit)
}

// openAll opens every job, or none.
func openAll(ctx context.Context, l *launch.Launcher, args []string) ([]*launch.Job, error) {
	var jobs []*launch.Job
	for _, arg := range args {
		name, err := unit.ParseName(arg)
		if err != nil {
			return jobs, err
		}
		j, err := l.Open(ctx, name)
		if err != nil {
			return jobs, err
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func closeAll(jobs []*launch.Job) {
	for _, j := range jobs {
		j.Close()
	}
}
