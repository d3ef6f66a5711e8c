package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/cmd/internal/program"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/serve"
	"github.com/unitward/unitward/verify"
)

// Exit statuses, as unitward has them.
const (
	exitOK = 0
	// exitUnconfirmed: it could not be proven that all has ended that was to.
	exitUnconfirmed = 123
	// exitError: it could not begin.
	exitError = 125
)

// Who builds a release says what it is by -ldflags -X (see the Makefile). Empty
// is not known: then the build's own information says it.
var (
	releaseVersion string // without a v
	releaseCommit  string
	releaseDate    string // of the commit, RFC 3339
)

// streams are the program's own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// options are what was asked for.
type options struct {
	stateDir, after string
	running         int
}

// errUnconfirmed has been said in full.
var errUnconfirmed = errors.New("the end of some jobs is not confirmed")

// execute runs a command line and returns the exit status.
func execute(args []string, s streams) int {
	caller := keeper.ReadCaller()
	if err := program.Descriptors(); err != nil {
		return fail(err, s)
	}
	cmd := command(s, caller)
	cmd.SetArgs(args)
	cmd.SetIn(s.in)
	cmd.SetOut(s.out)
	cmd.SetErr(s.err)
	switch err := cmd.Execute(); {
	case errors.Is(err, errUnconfirmed):
		return exitUnconfirmed
	case err != nil:
		return fail(err, s)
	}
	return exitOK
}

// fail says an error and what would help.
func fail(err error, s streams) int {
	fmt.Fprintf(s.err, "unitward-mcp: %v\n", err)
	var h interface{ Hint() []string }
	if errors.As(err, &h) {
		for _, hint := range h.Hint() {
			fmt.Fprintf(s.err, "hint: %s\n", hint)
		}
	}
	return exitError
}

// command is the command line.
func command(s streams, caller keeper.Caller) *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "unitward-mcp [OPTIONS]",
		Short: "Offer jobs to agents as tools of the Model Context Protocol",
		Long: "unitward-mcp serves one client of the Model Context Protocol (MCP) on standard\n" +
			"input and output, as agents start such servers. Its tools run commands as jobs of\n" +
			"unitward: run, start, wait, status, stop, logs, list, release and doctor.\n\n" +
			"At the end of standard input, and at SIGTERM, SIGINT or SIGHUP, jobs of lifetime\n" +
			"call are stopped; all others go on, and are named on standard error.",
		DisableFlagsInUseLine: true,
		SilenceErrors:         true,
		SilenceUsage:          true,
		CompletionOptions:     cobra.CompletionOptions{DisableDefaultCmd: true},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &program.Error{Problem: fmt.Sprintf("cannot use the argument %.100q: it takes none", args[0]), Way: "unitward-mcp --help lists its options"}
			}
			return nil
		},
		Version: program.ReadIdentity(releaseVersion, releaseCommit, releaseDate).String(),
		RunE:    func(*cobra.Command, []string) error { return o.serve(s, caller) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &program.Error{Problem: "cannot read the options: " + err.Error(), Way: "unitward-mcp --help lists them"}
	})
	cmd.Flags().StringVar(&o.after, "background-after", "45s", "let a call wait for `TIME` before it answers with the job's name")
	cmd.Flags().IntVar(&o.running, "max-running", 0, "let `N` jobs be unsettled at once (default: four for each processor)")
	cmd.Flags().StringVar(&o.stateDir, "state-dir", "", "keep records in `DIR` (default $UNITWARD_STATE_DIR, or by user)")
	return cmd
}

func (o *options) serve(s streams, caller keeper.Caller) error {
	after, err := program.Duration("background-after", o.after)
	if err != nil {
		return err
	}
	if o.running < 0 {
		return &program.Error{Problem: fmt.Sprintf("cannot use --max-running %d: at least one job is expected", o.running), Way: "leave it out for four jobs for each processor"}
	}
	ctx, end := program.Stay()
	defer end()
	l, err := program.Launcher(o.stateDir)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.MakeStateDir(); err != nil {
		return err
	}
	e := attend(ctx, serve.Config{
		Launcher: l, Caller: caller, Environ: os.Environ(), Version: program.ReadIdentity(releaseVersion, releaseCommit, releaseDate).Version, MaxRunning: o.running,
	}, after, s.in, s.out)
	if len(e.Left) > 0 {
		fmt.Fprintf(s.err, "unitward-mcp: these jobs go on: %s\n", strings.Join(e.Left, " "))
	}
	for _, u := range e.Unconfirmed {
		fmt.Fprintf(s.err, "unitward-mcp: cannot confirm the end of job %s\nhint: look again with: unitward verify %s\n", u.Name, verify.Typed(u.Name))
	}
	if !e.Confirmed {
		return errUnconfirmed
	}
	return nil
}
