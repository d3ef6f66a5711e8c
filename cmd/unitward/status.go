package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit/launch"
)

func (a *app) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "status NAME...",
		Short:             "Say what is known of jobs",
		Long:              "status looks at each job once and prints what is known of it, and which commands\nshow its output, its lines in the journal, and its unit while there is one.",
		Args:              names,
		ValidArgsFunction: a.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.status(args) },
	}
}

func (a *app) status(args []string) error {
	shown := 0
	return a.each(args, func(ctx context.Context, _ *jobs, j *launch.Job) error {
		j.SeekLeft()
		rep, err := j.Look(ctx)
		if !looked(rep) {
			return err
		}
		a.warn(err)
		if a.json {
			return printJSON(a.Out, rep)
		}
		shown++
		return printReport(a.Out, rep, j.Foreign(), places(j.Record(), rep.State), shown > 1)
	})
}
