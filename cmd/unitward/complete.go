package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

// completer proposes what may stand at the cursor.
type completer = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completions gives every option that takes a value what completes it, unless
// its verb has done so. Without that a shell would propose files everywhere.
// A verb that runs does without.
func (a *app) completions(root *cobra.Command, args []string) {
	asked := len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd)
	directory := cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	special := map[string]completer{
		"state-dir": directory, "working-directory": directory, "job-dir": directory,
		"report":      cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		"for":         fixed(string(launch.FactExit), string(launch.FactTree), string(launch.FactSettled)),
		"kill-signal": completeSignals,
		"owner":       a.completeOwners,
		"uid":         accounts("/etc/passwd"), "gid": accounts("/etc/group"),
		"setenv": completeVariables, "slice": completeSlices, "machine": completeMachines,
		"property":       completeProperties,
		"timer-property": completeTrigger(property.Timer), "path-property": completeTrigger(property.Path), "socket-property": completeTrigger(property.Socket),
		"job-mode": fixed(jobModes[:]...), "service-type": fixed("exec", "simple", "oneshot"), "expand-environment": fixed("yes", "no"),
		"root-directory": directory,
	}
	nothing := fixed()
	for _, cmd := range append(root.Commands(), root) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if asked { // the marks around a value's name are for the help
				f.Usage = strings.ReplaceAll(f.Usage, "`", "")
			}
			if _, done := cmd.GetFlagCompletionFunc(f.Name); done || f.NoOptDefVal != "" {
				return
			}
			propose := special[f.Name]
			if propose == nil {
				propose = nothing
			}
			cmd.RegisterFlagCompletionFunc(f.Name, propose)
		})
		switch {
		case cmd.ValidArgsFunction != nil:
		case cmd.Name() == "run", cmd.Name() == "start":
			cmd.ValidArgsFunction = completeCommands
		case cmd != root:
			cmd.ValidArgsFunction = nothing
		}
	}
}

func fixed(values ...string) completer {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// eachRecorded does something with the name of every job on record. A completion
// has nobody to tell that there is no record to be had.
func (a *app) eachRecorded(do func(l *launch.Launcher, name string)) {
	l, err := a.launcher()
	if err != nil {
		return
	}
	defer l.Close()
	found, _ := l.Names()
	for _, name := range found {
		do(l, name)
	}
}

// completeNames offers the names of jobs.
func (a *app) completeNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	a.eachRecorded(func(_ *launch.Launcher, name string) { names = append(names, name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeOwners offers the owners of the jobs on record.
func (a *app) completeOwners(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var owners []string
	a.eachRecorded(func(l *launch.Launcher, name string) {
		j, err := l.Open(context.Background(), name)
		if err != nil {
			return
		}
		defer j.Close()
		if owner := j.Record().Owner; owner != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	})
	return owners, cobra.ShellCompDirectiveNoFileComp
}

// completeTerminals offers the jobs to whose terminal somebody can come.
func (a *app) completeTerminals(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	a.eachRecorded(func(l *launch.Launcher, name string) {
		seen, err := l.Glance(context.Background(), name, func(rec *unit.Record) bool { return rec.Attachable && rec.Sealed == nil })
		if err == nil && seen != nil && !seen.Report.Exit.Known {
			names = append(names, name)
		}
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSignals offers the names of all signals, as it is begun with or without
// SIG.
func completeSignals(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
	prefix := ""
	if strings.HasPrefix(word, "SIG") {
		prefix = "SIG"
	}
	var out []string
	for n := 1; n <= lastSignal; n++ {
		if name := verify.SignalName(n); name[0] > '9' { // two have no name
			out = append(out, prefix+name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// lastSignal is SIGRTMAX.
const lastSignal = 64

// completeProperties offers what a job of the isolation that was asked for can have.
func completeProperties(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	scope, _ := cmd.Flags().GetBool("scope")
	isolation, _ := cmd.Flags().GetString("isolation")
	if scope || isolation == verify.IsolationScope {
		return completeWith(property.CompleteScope)(cmd, args, word)
	}
	return completeWith(property.Complete)(cmd, args, word)
}

// completeVariables offers the names of the caller's variables.
func completeVariables(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		out = append(out, name)
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// accounts offers the first fields of a file such as passwd(5).
func accounts(file string) completer {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		b, _ := os.ReadFile(file) // without it nothing can be proposed
		var out []string
		for line := range strings.Lines(string(b)) {
			if name, _, ok := strings.Cut(line, ":"); ok && name != "" && !strings.ContainsAny(name[:1], "#+-") {
				out = append(out, name)
			}
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeCommands offers programs for the first word of a job's command, and
// files where that names a path, and for the rest.
func completeCommands(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || word == "" || strings.Contains(word, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var out []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		entries, _ := os.ReadDir(dir) // a part of PATH that is not there has no programs
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), word) && executable(filepath.Join(dir, e.Name())) {
				out = append(out, e.Name())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), cobra.ShellCompDirectiveDefault
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
