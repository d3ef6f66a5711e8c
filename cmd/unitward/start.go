package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (a *app) startCommand() *cobra.Command {
	o := &jobOptions{}
	cmd := &cobra.Command{
		Use:   "start [OPTIONS] [--] COMMAND [ARGUMENT...]",
		Short: "Start a job in the background and print its name",
		Long: "start starts COMMAND as a systemd service and returns once it was executed. The\n" +
			"job goes on without its launcher; wait, status, stop and verify find it by the\n" +
			"name that start prints.",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return a.start(cmd, o, args) },
	}
	o.register(cmd, unit.LifetimeDetached, unit.InputNull, unit.OutputCapture)
	cmd.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "do not print the name")
	return cmd
}

func (a *app) start(cmd *cobra.Command, o *jobOptions, args []string) error {
	s, err := o.spec(cmd, args)
	if err != nil {
		return err
	}
	if s.Lifetime == unit.LifetimeCall {
		return &usageError{"cannot start a job of lifetime call: it would end with this command", "use unitward run, or --lifetime owner"}
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
	defer l.Close()
	ctx, cancel := context.WithCancel(context.Background())
	l.Connect(ctx, s)
	sig := catchSignals()
	defer sig.stop()
	sig.starting(ctx, cancel)
	j, err := l.Start(ctx, s, launch.Stdio{In: a.In, Out: a.Out, Err: a.Err})
	if n := sig.first(); n != 0 && err != nil {
		return &statusError{exitSignal + n}
	}
	if err != nil {
		return err
	}
	defer j.Close()
	rep, err := j.Look(context.Background())
	if err != nil {
		return err
	}
	if err := sink.Write(rep); err != nil {
		return err
	}
	switch {
	case a.json:
		return printJSON(a.Out, rep)
	case !a.quiet:
		_, err = fmt.Fprintln(a.Out, j.Name())
	}
	return err
}
