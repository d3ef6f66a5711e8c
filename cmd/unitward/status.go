package main

import (
	"context"

	"github.com/spf13/cobra"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "status NAME...",
		Short:             "Say what is known of jobs",
		Long:              "status looks at each job once and prints what is known of it.",
		Args:              names,
		ValidArgsFunction: a.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.status(args) },
	}
}

func (a *app) status(args []string) error {
	ctx := context.Background()
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
	for i, j := range jobs {
		rep, err := j.Look(ctx)
		if err != nil {
			return err
		}
		if a.json {
			err = printJSON(a.Out, rep)
		} else {
			err = printReport(a.Out, rep, i > 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
