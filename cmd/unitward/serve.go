package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit/serve"
)

// serveGCPercent keeps small what stays for as long as its client does: most of
// it is of jobs that wait (debug.SetGCPercent).
const serveGCPercent = 50

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
	// Many things happen at once here, unlike in every other verb.
	runtime.SetDefaultGOMAXPROCS()
	debug.SetGCPercent(serveGCPercent)
	// Whose reader is gone gets an error, not a signal; what is executed gets
	// the signal as it was.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, unix.SIGPIPE)
	defer signal.Stop(broken)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	defer stop()
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	ended := serve.New(serve.Config{
		Launcher: l, Caller: a.caller, Environ: os.Environ(), Version: readIdentity().Version, MaxRunning: running.n,
	}).Serve(ctx, a.In, a.Out)
	if !ended.Confirmed {
		return &statusError{exitUnconfirmed}
	}
	return nil
}
