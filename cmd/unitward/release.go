package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (a *app) releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release NAME...",
		Short: "Drop the records of settled jobs",
		Long: "release drops what is kept of jobs that are settled: report, output and all. It\n" +
			"refuses a job that runs, or whose end is not confirmed. Settled records also go\n" +
			"by themselves: after 7 days, and when there are more than 1,000.",
		Args:              names,
		ValidArgsFunction: a.completeNames,
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error { return a.release(args) }
	return cmd
}

func (a *app) release(args []string) error {
	return a.each(args, func(ctx context.Context, _ *jobs, j *launch.Job) error { return j.Release(ctx) })
}

func (a *app) reapCommand() *cobra.Command {
	var o reapOptions
	cmd := &cobra.Command{
		Use:   "reap [OPTIONS]",
		Short: "Stop, prove and drop what jobs left behind",
		Long: "reap looks at every job that is not settled and drops the records of those of\n" +
			"which nothing is left, also where their outcome is lost. With --orphans it first\n" +
			"stops the jobs whose owner or launcher is gone, with --owner those of an owner, with\n" +
			"both those that are both: by their records and what is proven of them, never by what a process is called.\n" +
			"It returns 123 when something could not be proven.",
		Args: none,
	}
	cmd.Flags().BoolVar(&o.orphans, "orphans", false, "stop and drop every job whose owner or launcher is gone, detached ones too")
	cmd.Flags().StringVar(&o.owner, "owner", "", "stop and drop the jobs with this owner's `LABEL`")
	cmd.Flags().BoolVar(&o.weak, "accept-weak", false, "drop also what only weak evidence says is gone: see unitward-verify(1)")
	cmd.RunE = func(*cobra.Command, []string) error { return a.reap(o) }
	return cmd
}

// reapOptions are the options of reap.
type reapOptions struct {
	orphans, weak bool
	owner         string
}

func (a *app) reap(o reapOptions) error {
	ctx := context.Background()
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	l.SweepTriggers(ctx)
	found, err := l.Names()
	if err != nil {
		return err
	}
	status := exitOK
	for _, name := range found {
		rep, dropped, err := reapOne(ctx, l, name, o)
		if err != nil {
			fail(err, a.json, a.streams)
			status = exitUnconfirmed
			continue
		}
		switch {
		case rep == nil:
		case a.json:
			err = printJSON(a.Out, reaped{rep, dropped})
		case dropped:
			_, err = fmt.Fprintf(a.Out, "%s: dropped, %s\n", rep.Name, stateLine(*rep))
		default:
			a.explain(*rep, false)
		}
		if err != nil {
			return err
		}
		if rep != nil && !dropped {
			status = exitUnconfirmed
		}
	}
	if status != exitOK {
		return &statusError{status}
	}
	return nil
}

// reaped is a line of reap --json.
type reaped struct {
	*unit.Report
	Dropped bool `json:"dropped"`
}

// reapOne stops a job that is to be stopped, and drops it if nothing is left.
// It returns no report for a job that is none of reap's business.
func reapOne(ctx context.Context, l *launch.Launcher, name string, o reapOptions) (*unit.Report, bool, error) {
	j, err := l.Open(ctx, name)
	if err != nil {
		return nil, false, err
	}
	defer j.Close()
	rec := j.Record()
	wanted := (o.owner != "" || o.orphans) && (o.owner == "" || rec.Owner == o.owner) && (!o.orphans || rec.Sealed == nil && launch.Orphan(rec))
	if !wanted && (rec.Sealed != nil || o.owner != "" || o.orphans) {
		return nil, false, nil // settled ones go by themselves
	}
	if wanted && rec.Sealed == nil {
		var ended *unit.EndedError
		if rep, err := j.Stop(ctx, rec.Grace); err != nil && !errors.As(err, &ended) {
			return &rep, false, err
		}
	}
	rep, dropped, err := j.Reap(ctx, o.weak)
	if err == nil && !dropped && !wanted && rep.State != unit.StateUnknown {
		return nil, false, nil // it runs, and nobody asked to end it
	}
	return &rep, dropped, err
}
