package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

func (a *app) killCommand() *cobra.Command {
	var signal, who string
	cmd := &cobra.Command{
		Use:               "kill [OPTIONS] NAME...",
		Short:             "Send a signal to jobs",
		Long:              "kill sends a signal to the main process of a job, or to all of it. It waits for\nnothing; stop is what ends a job.",
		Args:              names,
		ValidArgsFunction: a.completeNames,
	}
	cmd.Flags().StringVarP(&signal, "signal", "s", "TERM", "send `SIGNAL`, a name or a number")
	cmd.Flags().StringVar(&who, "who", string(unit.WhoMain), "send it to `main|all`")
	cmd.RegisterFlagCompletionFunc("signal", completeSignals)
	cmd.RegisterFlagCompletionFunc("who", cobra.FixedCompletions([]string{"main", "all"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, ok := verify.SignalNumber(strings.ToUpper(signal))
		if !ok {
			return &usageError{"cannot send " + quote(signal) + ": no such signal", "give a name such as INT, or a number from 1 to 64"}
		}
		if who != string(unit.WhoMain) && who != string(unit.WhoAll) {
			return usage("cannot use --who %s: main or all is expected", quote(who))
		}
		return a.each(args, func(ctx context.Context, _ *jobs, j *launch.Job) error {
			return j.Signal(ctx, unit.Who(who), n)
		})
	}
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	return a.freezer("pause", "Freeze every process of jobs",
		"pause freezes every process of a job, until resume lets it go on. The time of\n--timeout goes on.", (*launch.Job).Pause)
}

func (a *app) resumeCommand() *cobra.Command {
	return a.freezer("resume", "Let paused jobs go on", "", (*launch.Job).Resume)
}

func (a *app) freezer(verb, short, long string, do func(*launch.Job, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:               verb + " NAME...",
		Short:             short,
		Long:              long,
		Args:              names,
		ValidArgsFunction: a.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.each(args, func(ctx context.Context, _ *jobs, j *launch.Job) error { return do(j, ctx) })
		},
	}
}
