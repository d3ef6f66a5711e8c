package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/terminal"
)

// detachKeys are the keys that leave a terminal.
type detachKeys struct{ text string }

func (o *detachKeys) register(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&o.text, "detach-keys", terminal.DefaultKeys, usage)
}

func (o *detachKeys) parse() (*terminal.Keys, error) {
	keys, err := terminal.ParseKeys(o.text)
	if err != nil {
		return nil, &usageError{"cannot use --detach-keys " + quote(o.text) + ": " + err.Error(), "write Ctrl and a key as ^ and that key: ^Pq, or none"}
	}
	return keys, nil
}

// ptyOptions decide whether a job gets a terminal of its own.
type ptyOptions struct {
	pty, late, shell bool
	keys             detachKeys
}

func (o *ptyOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&o.pty, "pty", "t", false, "give the job a terminal of its own; together with -P, where all streams are terminals")
	f.BoolVarP(&o.late, "pty-late", "T", false, "the same as --pty, which leaves the caller's terminal alone until the job runs")
	f.BoolVarP(&o.shell, "shell", "S", false, "run $SHELL, with a terminal of its own where all streams are terminals")
	registerBackground(f)
	o.keys.register(cmd, "with --pty: leave the job when these `KEYS` are typed within a second, or none")
}

func registerBackground(f *pflag.FlagSet) {
	f.String("background", "", "accepted for systemd-run's sake: what a job prints in its terminal is not coloured by `COLOR`")
}

// apply makes a job one with a terminal if it is to be. As with systemd-run,
// --pipe and --pty together mean the better of the two: a terminal where all of
// the caller's streams are one.
func (o *ptyOptions) apply(cmd *cobra.Command, s *unit.Spec, own streams) (*terminal.Keys, error) {
	keys, err := o.keys.parse()
	if err != nil {
		return nil, err
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
		return nil, &usageError{"cannot use --pty with a job that outlives its call: nobody would hold its terminal", "unitward start --pty gives it one that its keeper holds"}
	}
	if s.Key != "" {
		return nil, &usageError{"cannot use --pty with --key: a job that is there already has no terminal here", "unitward start --pty --key, and attach, lead to one that its keeper holds"}
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

// applyHeld makes a job one with a terminal that its keeper holds, as large as the
// caller's.
func applyHeld(cmd *cobra.Command, s *unit.Spec, own streams, cleanEnv bool) error {
	given := cmd.Flags().Changed
	switch {
	case given("stdin"):
		return usage("cannot use --stdin %s with --pty: the terminal is the job's input", s.Stdin)
	case given("output") && s.Output != unit.OutputCapture && s.Output != unit.OutputNull:
		return usage("cannot use --output %s with --pty: what is printed on the terminal is captured, or with null is not", s.Output)
	}
	size, ok := terminal.SizeOf(own.Out, own.In, own.Err)
	if !ok {
		size = terminal.DefaultSize
	}
	window := unit.Window(size)
	s.PTY, s.Window = true, &window
	if !cleanEnv && !slices.ContainsFunc(s.Env, func(kv string) bool { return strings.HasPrefix(kv, "TERM=") }) {
		s.Env = append(slices.Clip(s.Env), "TERM="+defaultTerm)
	}
	return nil
}

// defaultTerm is what systemd says of a terminal of which nobody has said what it
// is (default_term_for_tty()).
const defaultTerm = "vt220"

func isNoTerminal(f *os.File) bool { return !terminal.Is(f) }
