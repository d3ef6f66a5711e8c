package main

import (
	"context"
	"errors"
	"fmt"
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

// triggerOptions are the options of start for a job that something starts
// again and again. timer has what every option of a timer stands for, in the
// order given: the order is the manager's too.
type triggerOptions struct {
	timer, path, socket []string
	zone, clock         bool
}

func (o *triggerOptions) register(f *pflag.FlagSet) {
	for _, t := range []struct{ option, property, usage string }{
		{"on-active", "OnActiveSec", "start the job `TIME` from now"},
		{"on-boot", "OnBootSec", "start the job `TIME` after the boot"},
		{"on-startup", "OnStartupSec", "start the job `TIME` after the manager was started"},
		{"on-unit-active", "OnUnitActiveSec", "start the job `TIME` after it was last started"},
		{"on-unit-inactive", "OnUnitInactiveSec", "start the job `TIME` after it last ended"},
		{"on-calendar", "OnCalendar", "start the job at the times of `EVENT`, such as daily or Mon 04:00"},
		{"timer-property", "", "set a property of the timer, as `NAME=VALUE`"},
	} {
		f.Var(&assigned{&o.timer, t.property}, t.option, t.usage)
	}
	f.BoolVar(&o.zone, "on-timezone-change", false, "start the job when the time zone changes")
	f.BoolVar(&o.clock, "on-clock-change", false, "start the job when the clock is set")
	f.Var(&assigned{&o.path, ""}, "path-property", "start the job as a path unit says, with this property of it, as `NAME=VALUE`")
	f.Var(&assigned{&o.socket, ""}, "socket-property", "start the job when somebody connects, with this property of the socket, as `NAME=VALUE`")
}

// isTrigger is true for the options that a run of the job has not.
func isTrigger(option string) bool {
	return strings.HasPrefix(option, "on-") && option != "on-output-max" || slices.Contains([]string{"timer-property", "path-property", "socket-property"}, option)
}

func (o *triggerOptions) given() bool {
	return len(o.timer)+len(o.path)+len(o.socket) > 0 || o.zone || o.clock
}

// assigned is the value of an option that assigns a property; without a name
// the value is the whole assignment.
type assigned struct {
	list *[]string
	name string
}

// Set adds an assignment.
func (a *assigned) Set(value string) error {
	if value == "" {
		return errors.New("a value is expected")
	}
	if a.name != "" {
		value = a.name + "=" + value
	}
	*a.list = append(*a.list, value)
	return nil
}

// Type is what help says of an option without a word for its value.
func (a *assigned) Type() string { return "assignment" }

// String is the value as help shows it, which has none to show.
func (a *assigned) String() string { return "" }

// trigger is the unit that was asked for.
func (o *triggerOptions) trigger() (launch.Trigger, error) {
	var t launch.Trigger
	kinds, timer := 0, o.timer
	if o.zone {
		timer = append(timer, "OnTimezoneChange=yes")
	}
	if o.clock {
		timer = append(timer, "OnClockChange=yes")
	}
	for _, k := range []struct {
		kind       property.Trigger
		properties []string
	}{{property.Timer, timer}, {property.Path, o.path}, {property.Socket, o.socket}} {
		if len(k.properties) > 0 {
			t.Kind, t.Properties = k.kind, k.properties
			kinds++
		}
	}
	if kinds > 1 {
		return t, usage("cannot start the job by several of timer, path and socket: one unit starts it")
	}
	for _, a := range t.Properties {
		if _, err := property.ParseTrigger(t.Kind, a); err != nil {
			return t, err
		}
	}
	if t.Kind == property.Timer && !slices.ContainsFunc(t.Properties, func(a string) bool { return strings.HasPrefix(a, "On") }) {
		return t, &usageError{"cannot start the job by a timer that never elapses: --timer-property alone says only how", "add one of --on-active, --on-calendar …"}
	}
	return t, nil
}

// trigger makes the unit that starts the job, and prints its name.
func (a *app) trigger(cmd *cobra.Command, o *jobOptions, to *triggerOptions, args []string) error {
	if told, err := o.told(a.streams); told {
		return err
	}
	t, err := to.trigger()
	if err != nil {
		return err
	}
	suffix := "." + string(t.Kind)
	o.name = strings.TrimSuffix(o.name, suffix)
	command := args
	if len(args) == 0 && o.name != "" {
		command = []string{"-"} // the service is there, or the manager says that it is not
	}
	s, err := o.spec(cmd, a.caller, command)
	if err != nil {
		return err
	}
	if s.Remote.Named() {
		return &usageError{fmt.Sprintf("cannot start a job again and again with a manager of %s: each run is a job of unitward, which need not be there", s.Remote),
			"run unitward there"}
	}
	if !cmd.Flags().Changed("output") && s.Apart() {
		s.Output = unit.OutputJournal
	}
	for _, err := range []error{o.fits(cmd, s), background(cmd, s), o.fitsTrigger(cmd, t.Kind, s, len(args) > 0)} {
		if err != nil {
			return err
		}
	}
	t.JobMode = s.JobMode
	if t.Name = s.Name; t.Name == "" {
		t.Name = launch.NewName(s.Command[0])
	}
	if len(args) > 0 {
		if err := o.locate(s); err != nil {
			return err
		}
		t.Job, t.Args, t.Environ = s, again(cmd, t.Name, s), os.Environ()
	}
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	if err := l.StartTrigger(context.Background(), s.Manager, t); err != nil {
		return err
	}
	// It is there, so an error from here on is not that of a start.
	err = nil
	switch {
	case a.json:
		err = printJSON(a.Out, startedTrigger{t.Name + suffix, t.Name + ".service"})
	case !a.quiet:
		_, err = fmt.Fprintln(a.Out, t.Name+suffix)
	}
	if err != nil {
		fmt.Fprintf(a.Err, "unitward: %s was started, but: cannot print its name: %v\nhint: end it with: %s stop %s\n",
			t.Name+suffix, err, unit.Systemctl(s.Manager, s.Remote), verify.Typed(t.Name+suffix))
		return &statusError{exitUnconfirmed}
	}
	return nil
}

// startedTrigger is what start --json prints of a trigger.
type startedTrigger struct {
	Trigger string `json:"trigger"`
	Service string `json:"service"`
}

// ofAnyTrigger are the options that are for the trigger, where the service that it
// starts is there already.
var ofAnyTrigger = [...]string{"unit", "user", "system", "json", "quiet", "job-mode", "state-dir", "no-block", "collect", "no-ask-password"}

// ofNoSocket are options of a job that the service of a socket is not: it has no
// record, and the manager has its output.
var ofNoSocket = [...]string{"stdin", "output", "output-max", "on-output-max", "leftovers", "owner", "require-limits"}

// fitsTrigger refuses what a job cannot have that is started by another unit, or a
// service that is there already.
func (o *jobOptions) fitsTrigger(cmd *cobra.Command, kind property.Trigger, s *unit.Spec, command bool) error {
	var odd string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case odd != "" || isTrigger(f.Name):
		case !command && !slices.Contains(ofAnyTrigger[:], f.Name), kind == property.Socket && slices.Contains(ofNoSocket[:], f.Name) && f.Value.String() != string(unit.OutputJournal):
			odd = f.Name
		}
	})
	switch {
	case odd != "" && !command:
		return &usageError{"cannot use --" + odd + ": no command was given, and what the " + string(kind) + " starts is there already", "give the command, or leave the option out"}
	case odd != "":
		return &usageError{"cannot use --" + odd + " with a socket: what it starts is a service of its own, and no job", "leave it out: the output is in the journal"}
	case o.scope:
		return usage("cannot use --scope: a %s starts a service", kind)
	case o.appID != "":
		return usage("cannot use --app-id: a %s names its own service", kind)
	case o.report != "":
		return &usageError{"cannot use --report: each run of the job has a report of its own", "unitward list --all --owner shows the runs, and unitward status each report"}
	case o.key != "":
		return usage("cannot use --key: each run is another job")
	case s.Lifetime == unit.LifetimeOwner:
		return usage("cannot use --lifetime owner: the runs of the job end with their service")
	case s.InheritSlice:
		return &usageError{"cannot use --slice-inherit: the job is not started from here", "name the slice with --slice"}
	case kind == property.Socket && !slices.Contains(s.Isolation, verify.IsolationService):
		return usage("cannot use --isolation %s: a socket is handed to a service", quote(o.isolation))
	}
	return nil
}

// again is the command line, without its verb, that runs the job each time:
// what was given here, in the foreground of the triggered service.
func again(cmd *cobra.Command, name string, s *unit.Spec) []string {
	defaults := map[string]string{"output": string(unit.OutputCapture), "stdin": string(unit.InputNull), "owner": name, "quiet": "true"}
	if s.Apart() {
		defaults["output"] = string(unit.OutputJournal)
	}
	var args []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		delete(defaults, f.Name)
		switch f.Name {
		case "unit", "lifetime", "expand-environment", "working-directory", "same-dir", "json", "no-block":
			return
		}
		if isTrigger(f.Name) {
			return
		}
		if dir, err := filepath.Abs(f.Value.String()); (f.Name == "state-dir" || f.Name == "root-directory") && err == nil {
			args = append(args, "--"+f.Name+"="+dir)
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+f.Value.String())
	})
	for _, option := range []string{"output", "stdin", "owner", "quiet"} {
		if v, ok := defaults[option]; ok {
			args = append(args, "--"+option+"="+v)
		}
	}
	return append(append(args, "--working-directory="+s.Dir, "--"), s.Command...)
}

// fire runs the job of a trigger once, as its service.
func fire(file string) int {
	s := streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	env, args, err := launch.Fire(file)
	if err != nil {
		return fail(fmt.Errorf("cannot run what was triggered: %w", err), false, s)
	}
	os.Clearenv()
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			os.Setenv(name, value) //nolint:errcheck // names and values were an environment
		}
	}
	return execute(append([]string{"run"}, args...), s)
}
