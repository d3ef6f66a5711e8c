package main

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

const (
	// shellName is the name under which this program is a shell, for settings
	// that take one path and no arguments.
	shellName = "unitward-shell"
	// defaultShell is what is run where UNITWARD_SHELL names none.
	defaultShell = "/bin/sh"
)

// asShell is true for a program that was called by the name of a shell.
func asShell(argv0 string) bool { return filepath.Base(argv0) == shellName }

func (a *app) shellCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shell -c STRING [ARGUMENT...] | shell -- COMMAND [ARGUMENT...]",
		Short: "Stand in for sh, or in front of a command, unseen",
		Long: "shell runs $UNITWARD_SHELL, or /bin/sh, with its own arguments, or the command\n" +
			"after --, as a job that ends with whoever called it. It says nothing of its own,\n" +
			"passes input, output and signals through, and ends as the command did. What the\n" +
			"command leaves behind is ended. Two things are not as for a shell that is called\n" +
			"directly: descriptors above 2 are not passed on, such as those of make -j, and\n" +
			"no signal is ignored because the caller ignores it.\n\n" +
			"Where a program's setting takes the path of a shell and nothing else, give it\n" +
			"unitward-shell, which is a link to unitward.",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == "--help" {
				return cmd.Help()
			}
			return a.shell(args)
		},
	}
	// What it is given is the shell's: no option of unitward's is proposed.
	for _, name := range []string{"help", "json", "state-dir"} {
		cmd.Flags().Bool(name, false, "")
		cmd.Flags().Lookup(name).Hidden = true
	}
	return cmd
}

// shell runs a command in the place of this process.
func (a *app) shell(args []string) error {
	argv := append([]string{cmp.Or(os.Getenv("UNITWARD_SHELL"), defaultShell)}, args...)
	if len(args) > 0 && args[0] == "--" {
		argv = args[1:]
	}
	if len(argv) == 0 {
		return &usageError{"cannot run anything: no command comes after --", "unitward shell -- COMMAND [ARGUMENT...]"}
	}
	plain, o := &cobra.Command{Use: "shell"}, &jobOptions{}
	o.register(plain, unit.LifetimeCall, unit.InputInherit, unit.OutputInherit)
	s, err := o.spec(plain, a.caller, argv)
	if err != nil {
		return err
	}
	a.unseen = true
	b, err := a.begin(s, o, reportSink{}, nil)
	if err != nil {
		return err
	}
	// What cannot be written down, or proven, is not for this verb to say: its
	// caller takes it for the command.
	rep, _ := b.sig.attend(b.job, s, nil)
	b.close()
	switch {
	case rep.Exit.Signal != nil:
		n := signalNumber(*rep.Exit.Signal)
		keeper.Die(unix.Signal(n))
		return &statusError{exitSignal + n}
	case rep.Exit.Code != nil:
		return &statusError{*rep.Exit.Code}
	}
	return &statusError{exitUnconfirmed}
}

// suspend stops the job and then this process, as a terminal would have stopped
// both: the job's processes are of a session of their own, where TSTP stops
// nobody (setpgid(2), orphaned process groups). It returns once it goes on.
func suspend(forward func(unit.Who, unix.Signal)) {
	forward(unit.WhoAll, unix.SIGSTOP)
	stopSelf()
}
