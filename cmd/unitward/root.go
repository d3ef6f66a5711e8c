package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/cmd/internal/program"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/launch"
)

// app is what every verb works with.
type app struct {
	streams
	stateDir string
	json     bool
	quiet    bool
	// unseen is true for a verb that stands in for the job's command.
	unseen bool
	// caller is what a job inherits.
	caller keeper.Caller
}

// execute runs one command line and returns the exit status.
func execute(args []string, s streams) int {
	a := &app{streams: s, caller: keeper.ReadCaller()}
	root := a.root(args)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	if err := root.Execute(); err != nil {
		return fail(err, a.json, s)
	}
	return exitOK
}

// verbs are the commands by their names.
func (a *app) verbs() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"run": a.runCommand, "start": a.startCommand, "wait": a.waitCommand, "status": a.statusCommand,
		"list": a.listCommand, "stop": a.stopCommand, "kill": a.killCommand, "pause": a.pauseCommand,
		"resume": a.resumeCommand, "verify": a.verifyCommand, "doctor": a.doctorCommand,
		"release": a.releaseCommand, "reap": a.reapCommand, "serve": a.serveCommand, "shell": a.shellCommand,
		"version": a.versionCommand, "attach": a.attachCommand,
		"logs": a.logsCommand,
	}
}

// root is the command line's top. A verb that comes first is all that is made:
// making the others takes longer than running one of them.
func (a *app) root(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "unitward VERB",
		Short: "Run jobs as systemd units, and prove when they have ended",
		Long: "unitward starts a command as a systemd transient unit and says when, and on\n" +
			"what evidence, all of it has ended.",
		DisableFlagsInUseLine: true,
		SilenceErrors:         true,
		SilenceUsage:          true,
		PersistentPreRunE:     func(cmd *cobra.Command, _ []string) error { return checkOptions(cmd) },
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{"cannot run the verb " + quote(args[0]) + ": there is none of that name", "unitward --help lists them; a command to run goes after: unitward run --"}
			}
			return &usageError{"cannot do anything: no verb was given", "unitward --help lists them"}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(a.helpCommand())
	root.PersistentFlags().StringVar(&a.stateDir, "state-dir", "", "keep records in `DIR` (default $UNITWARD_STATE_DIR, or by user)")
	root.PersistentFlags().Var(&jsonFormat{&a.json}, "json", "print JSON, and an error as JSON too; =short and =pretty are the same, =off is none")
	root.PersistentFlags().Lookup("json").NoOptDefVal = "true"
	verbs := a.verbs()
	if len(args) > 0 && verbs[args[0]] != nil {
		add(root, verbs[args[0]]())
		return root
	}
	for _, verb := range verbs {
		add(root, verb()) // cobra sorts them
	}
	root.Version = readIdentity().String()
	a.completions(root, args)
	return root
}

// add adds a verb, whose Use line says all of its use.
func add(root, verb *cobra.Command) {
	verb.DisableFlagsInUseLine = true
	switches(verb.Flags())
	root.AddCommand(verb)
}

// helpCommand is cobra's, which takes a verb that is none for no mistake.
func (a *app) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [VERB]",
		Short:                 "Help about any verb",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			verb, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return &usageError{"cannot help with " + quote(strings.Join(args, " ")) + ": there is no such verb", "unitward --help lists them"}
			}
			verb.InitDefaultHelpFlag()
			verb.InitDefaultVersionFlag()
			return verb.Help()
		},
	}
}

// launcher opens the state directory. The caller closes it.
func (a *app) launcher() (*launch.Launcher, error) {
	return program.Launcher(a.stateDir)
}

// jsonFormat is the value of --json, which systemd-run and others have a word
// for.
type jsonFormat struct{ on *bool }

// Set takes the words of systemd's programs, and those of a switch.
func (f *jsonFormat) Set(s string) error {
	on, err := truth(s)
	if s == "short" || s == "pretty" {
		on, err = true, nil
	}
	if err != nil {
		return errors.New("short, pretty or off is expected")
	}
	*f.on = on
	return nil
}

// Type makes help show a switch.
func (f *jsonFormat) Type() string { return "bool" }

// String is the value as help shows it.
func (f *jsonFormat) String() string { return strconv.FormatBool(*f.on) }

// deed is what a verb does, for those whose name is none.
func deed(verb string) string {
	switch verb {
	case "logs":
		return "show logs"
	case "status":
		return "show a status"
	}
	return verb
}

// names are the arguments of a verb that takes jobs.
func names(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return &usageError{"cannot " + deed(cmd.Name()) + ": no job was named", "unitward list shows them"}
	}
	return nil
}

func oneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return &usageError{"cannot use " + quote(args[1]) + " with " + cmd.Name() + ": one job at a time", cmd.UseLine()}
	}
	return names(cmd, args)
}

func none(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return &usageError{"cannot use " + quote(args[0]) + " with " + cmd.Name() + ": it takes no arguments", cmd.UseLine()}
	}
	return nil
}
