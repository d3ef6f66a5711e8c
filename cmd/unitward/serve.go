package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/cmd/internal/program"
	"github.com/unitward/unitward/unit/serve"
)

func (a *app) serveCommand() *cobra.Command {
	running := wholeNumber{}
	cmd := &cobra.Command{
		Use:   "serve [OPTIONS]",
		Short: "Serve one client on standard input and output, by JSON-RPC",
		Long: "serve reads requests from standard input and answers on standard output: JSON-RPC\n" +
			"2.0, one object a line, in UTF-8. It is for programs that start many jobs and\n" +
			"want to know of each when, and on what evidence, it has ended.\n\n" +
			"At the end of standard input, and at SIGTERM, SIGINT or SIGHUP, jobs of lifetime\n" +
			"call are stopped; all others go on, and the last message names them. The exit\n" +
			"status is 0 when the end of what was stopped is proven, else 123.",
		Args: none,
		RunE: func(*cobra.Command, []string) error { return a.serve(running) },
	}
	cmd.Flags().Var(&running, "max-running", "let `N` jobs be unsettled at once (default: four for each processor)")
	return cmd
}

func (a *app) serve(running wholeNumber) error {
	if running.given && running.n < 1 {
		return usage("cannot use --max-running %d: at least one job is expected", running.n)
	}
	ctx, end := program.Stay()
	defer end()
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.MakeStateDir(); err != nil {
		return err
	}
	ended := serve.New(serve.Config{
		Launcher: l, Caller: a.caller, Environ: os.Environ(), Version: readIdentity().Version, MaxRunning: running.n,
	}).Serve(ctx, a.In, a.Out)
	if !ended.Confirmed {
		return &statusError{exitUnconfirmed}
	}
	return nil
}
