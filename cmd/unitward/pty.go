package main

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/terminal"
)

// ptyOptions decide whether a job gets a terminal of its own.
type ptyOptions struct {
	pty, late, shell bool
	detachKeys       string
}

func (o *ptyOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&o.pty, "pty", "t", false, "give the job a terminal of its own; together with -P, where all streams are terminals")
	f.BoolVarP(&o.late, "pty-late", "T", false, "the same as --pty, which leaves the caller's terminal alone until the job runs")
	f.BoolVarP(&o.shell, "shell", "S", false, "run $SHELL, with a terminal of its own where all streams are terminals")
	f.String("background", "", "accepted for systemd-run's sake: what a job prints in its terminal is not coloured by `COLOR`")
	f.StringVar(&o.detachKeys, "detach-keys", terminal.DefaultKeys, "with --pty: leave the job when these `KEYS` are typed within a second, or none")
}

// apply makes a job one with a terminal if it is to be. As with systemd-run,
// --pipe and --pty together mean the better of the two: a terminal where all of
// the caller's streams are one.
func (o *ptyOptions) apply(cmd *cobra.Command, s *unit.Spec, own streams) (*terminal.Keys, error) {
	keys, err := terminal.ParseKeys(o.detachKeys)
	if err != nil {
		return nil, &usageError{"cannot use --detach-keys " + quote(o.detachKeys) + ": " + err.Error(), "write Ctrl and a key as ^ and that key: ^Pq, or none"}
	}
	given := cmd.Flags().Changed
	switch {
	case !o.wanted() && given("detach-keys"):
		return nil, usage("cannot use --detach-keys without --pty: there is no terminal to leave")
	case !o.wanted():
		return nil, nil
	}
	if pipe, _ := cmd.Flags().GetBool("pipe"); (pipe || o.shell) && slices.ContainsFunc([]*os.File{own.In, own.Out, own.Err}, isNoTerminal) {
		return nil, nil
	}
	switch {
	case given("stdin") && s.Stdin != unit.InputInherit:
		return nil, usage("cannot use --stdin %s with --pty: the terminal is the job's input", s.Stdin)
	case given("output") && s.Output != unit.OutputInherit:
		return nil, usage("cannot use --output %s with --pty: the terminal takes the job's output", s.Output)
	}
	if s.Lifetime != unit.LifetimeCall || s.DetachAfter > 0 {
		return nil, usage("cannot use --pty with a job that outlives its call: nobody would hold its terminal")
	}
	s.PTY, s.Stdin, s.Output = true, unit.InputInherit, unit.OutputInherit
	return keys, nil
}

func (o *ptyOptions) wanted() bool { return o.pty || o.late || o.shell }

// command is what to run: with --shell the caller's shell.
func (o *ptyOptions) command(args []string) ([]string, error) {
	switch {
	case !o.shell:
		return args, nil
	case len(args) > 0:
		return nil, &usageError{"cannot use --shell with the command " + quote(args[0]) + ": the shell is the command", "leave one of them out"}
	}
	if shell := os.Getenv("SHELL"); filepath.IsAbs(shell) {
		return []string{shell}, nil
	}
	return []string{defaultShell}, nil
}

func isNoTerminal(f *os.File) bool { return !terminal.Is(f) }
