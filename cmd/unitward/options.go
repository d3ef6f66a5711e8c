package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

// jobOptions are the options of run and start.
type jobOptions struct {
	name, slice, description      string
	user, system                  bool
	isolation                     string
	scope                         bool
	cgroupParent                  string
	properties, setenv            []string
	cleanEnv                      bool
	dir, uid, gid                 string
	nice                          wholeNumber
	timeout, grace, killSignal    string
	leftovers, lifetime           string
	owner                         string
	ownerPID                      wholeNumber
	ownerUnit                     string
	key, detachAfter              string
	memoryMax, tasksMax, cpuQuota string
	requireLimits                 bool
	stdin, output                 string
	outputMax, onOutputMax        string
	report                        string
	systemdOptions
	remoteOptions
	// search is the environment in which the command is looked for.
	search []string
}

func (o *jobOptions) register(cmd *cobra.Command, lifetime unit.Lifetime, stdin unit.Input, output unit.Output) {
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.SortFlags = false
	f.StringVarP(&o.name, "unit", "u", "", "name the job, and its unit, `NAME`")
	f.BoolVar(&o.user, "user", false, "ask the user manager (default, unless root)")
	f.BoolVar(&o.system, "system", false, "ask the system manager (default for root)")
	f.StringVar(&o.isolation, "isolation", "auto", "hold the job by the first that works of these `RUNGS`: service, scope, cgroup, group, or auto for all of them")
	f.BoolVar(&o.scope, "scope", false, "the same as --isolation scope")
	f.StringVar(&o.cgroupParent, "cgroup-parent", "", "for isolation cgroup: make the unit below the cgroup `PATH`")
	f.StringVar(&o.slice, "slice", "", "put the unit in `SLICE`")
	f.StringArrayVarP(&o.properties, "property", "p", nil, "set a unit property, as `NAME=VALUE`")
	f.StringVar(&o.description, "description", "", "describe the unit by `TEXT`")
	f.StringArrayVarP(&o.setenv, "setenv", "E", nil, "set `NAME=VALUE` in the environment, or take NAME from the caller's")
	f.BoolVar(&o.cleanEnv, "clean-env", false, "start from an empty environment")
	f.StringVar(&o.dir, "working-directory", "", "run in `DIR` (default: here)")
	f.BoolP("same-dir", "d", false, "run here, which is the default")
	f.StringVar(&o.uid, "uid", "", "run as `USER`")
	f.StringVar(&o.gid, "gid", "", "run as `GROUP`")
	f.Var(&o.nice, "nice", "run with this nice `LEVEL`, -20 to 19")
	f.StringVar(&o.timeout, "timeout", "", "end the job after `TIME`, such as 90s or 5min")
	f.StringVar(&o.grace, "grace", "10s", "wait `TIME` between TERM and KILL")
	f.StringVar(&o.killSignal, "kill-signal", "TERM", "stop with `SIGNAL` first")
	f.StringVar(&o.leftovers, "leftovers", string(unit.LeftoversKill), "what to do with processes that outlive the main one: `kill|wait|keep`")
	f.StringVar(&o.lifetime, "lifetime", string(lifetime), "what ends the job when it does not end by itself: `call|owner|detached`")
	f.StringVar(&o.owner, "owner", "", "label the job with its owner's `LABEL`")
	f.Var(&o.ownerPID, "owner-pid", "with --lifetime owner: end the job when process `PID` ends")
	f.StringVar(&o.ownerUnit, "owner-unit", "", "with --lifetime owner: end the job when `UNIT`, of any manager, has no process left")
	f.StringVar(&o.key, "key", "", "return the job that was started with the same `KEY` instead, while it is not settled")
	f.StringVar(&o.memoryMax, "memory-max", "", "limit the memory of the whole job to `BYTES`, such as 512M")
	f.StringVar(&o.tasksMax, "tasks-max", "", "limit the number of tasks of the whole job to `N`")
	f.StringVar(&o.cpuQuota, "cpu-quota", "", "limit the CPU time of the whole job to `PERCENT` of one CPU")
	f.BoolVar(&o.requireLimits, "require-limits", false, "run nothing where a limit would not hold")
	f.StringVar(&o.stdin, "stdin", string(stdin), "take standard input from `null|inherit`")
	f.StringVar(&o.output, "output", string(output), "send output to `capture|inherit|journal|null`")
	f.StringVar(&o.outputMax, "output-max", "64M", "capture at most `BYTES` of each stream: its head and its newest tail")
	f.StringVar(&o.onOutputMax, "on-output-max", string(unit.OnOutputMaxTruncate), "at that size, `truncate|stop`: drop the middle, or end the job")
	f.StringVar(&o.report, "report", "", "write the report to `FILE`, or to descriptor N as fd:N")
	o.systemdOptions.register(f)
	o.remoteOptions.register(cmd)
	f.BoolP("pipe", "P", false, "accepted for systemd-run's sake by run, which passes the caller's streams anyway; start takes it with --stdin inherit --output inherit")
	f.BoolP("collect", "G", false, "accepted for systemd-run's sake: units are always collected")
	f.Bool("wait", false, "accepted for systemd-run's sake by run, which waits anyway; start refuses it")
	choices := map[string][]string{"isolation": append([]string{"auto"}, launch.Ladder()...)}
	for _, name := range []string{"leftovers", "lifetime", "stdin", "output", "on-output-max"} {
		choices[name] = launch.Choices(fieldOf(name))
	}
	for name, values := range choices {
		cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// spec checks the options and turns them into a job, which inherits from
// caller.
func (o *jobOptions) spec(cmd *cobra.Command, caller keeper.Caller, command []string) (*unit.Spec, error) {
	if len(command) == 0 {
		return nil, &usageError{"cannot " + cmd.Name() + ": no command was given", cmd.UseLine()}
	}
	if o.ownerPID.given && o.ownerPID.n == 0 {
		return nil, usage("cannot use --owner-pid 0: the number of a process is expected")
	}
	s := &unit.Spec{
		Command: command, Umask: caller.Umask, Rlimits: caller.Rlimits, Description: o.description,
		Properties: o.properties, UID: o.uid, GID: o.gid, Owner: o.owner, OwnerPID: o.ownerPID.n, OwnerUnit: o.ownerUnit, Key: o.key, RequireLimits: o.requireLimits,
		CgroupParent: o.cgroupParent, Slice: o.slice, Leftovers: unit.Leftovers(o.leftovers), Lifetime: unit.Lifetime(o.lifetime),
		Stdin: unit.Input(o.stdin), Output: unit.Output(o.output), OnOutputMax: unit.OnOutputMax(o.onOutputMax),
	}
	if o.nice.given {
		s.Nice = &o.nice.n
	}
	for _, step := range []func(*unit.Spec) error{o.place, o.times, o.limits, o.manage, launch.Check, o.environment, o.expand} {
		if err := o.named(step(s)); err != nil {
			return nil, err
		}
	}
	return s, o.elsewhere(cmd, s)
}

// place decides name, manager and isolation.
func (o *jobOptions) place(s *unit.Spec) (err error) {
	if o.name != "" {
		name := o.name
		if o.scope {
			name = strings.TrimSuffix(name, ".scope")
		}
		if s.Name, err = jobName(name); err != nil {
			return err
		}
	}
	switch s.Manager = launch.DefaultManager(os.Geteuid()); {
	case o.user:
		s.Manager = unit.ManagerUser
	case o.system:
		s.Manager = unit.ManagerSystem
	}
	if err := o.remote(s); err != nil {
		return err
	}
	if s.Isolation, err = o.rungs(); err != nil {
		return err
	}
	if o.appID != "" {
		return o.application(s)
	}
	return nil
}

// rungs are the isolations to try.
func (o *jobOptions) rungs() ([]string, error) {
	var asked []string
	switch {
	case o.scope && o.isolation != "auto" && o.isolation != verify.IsolationScope:
		return nil, usage("cannot use --scope and --isolation %s together", quote(o.isolation))
	case o.scope:
		asked = []string{verify.IsolationScope}
	case o.isolation != "auto":
		asked = strings.Split(o.isolation, ",")
	}
	// What a manager elsewhere holds is for elsewhere to say.
	return launch.Choose(asked, o.user || o.system || len(asked) == 0 && o.manager() != "", o.cgroupParent)
}

// manager is the option that names a manager; empty for none.
func (o *jobOptions) manager() string {
	switch {
	case o.user:
		return "user"
	case o.system:
		return "system"
	case o.host != "":
		return "host"
	case o.machine != "":
		return "machine"
	}
	return ""
}

// option is how a part of a job is asked for.
func (o *jobOptions) option(field string) string {
	if field == "manager" {
		field = o.manager()
	}
	return "--" + strings.ReplaceAll(field, "_", "-")
}

// fieldOf is the part of a job that an option asks for.
func fieldOf(option string) string { return strings.ReplaceAll(option, "-", "_") }

// named is an error with the options in it that it is about.
func (o *jobOptions) named(err error) error {
	var wrong *launch.FieldError
	if !errors.As(err, &wrong) {
		return err
	}
	hint := ""
	if h := wrong.Hints(o.option); len(h) > 0 {
		hint = h[0]
	}
	return &usageError{wrong.Says(o.option), hint}
}

func (o *jobOptions) times(s *unit.Spec) (err error) {
	if o.timeout != "" {
		if s.Timeout, err = duration("timeout", o.timeout); err != nil {
			return err
		}
		if s.Timeout == 0 {
			return usage("cannot use --timeout %s: a time longer than nothing is expected", o.timeout)
		}
	}
	if o.detachAfter != "" {
		if s.DetachAfter, err = duration("detach-after", o.detachAfter); err != nil {
			return err
		}
		if s.DetachAfter == 0 {
			return usage("cannot use --detach-after %s: a time longer than nothing is expected", o.detachAfter)
		}
	}
	if s.Grace, err = duration("grace", o.grace); err != nil {
		return err
	}
	if o.killSignal != "TERM" {
		if s.KillSignal, err = launch.KillSignal(o.killSignal); err != nil {
			return wrong("kill-signal", o.killSignal, err)
		}
	}
	return nil
}

func (o *jobOptions) limits(s *unit.Spec) (err error) {
	for _, l := range []struct{ option, name, value string }{
		{"memory-max", "MemoryMax", o.memoryMax}, {"tasks-max", "TasksMax", o.tasksMax}, {"cpu-quota", "CPUQuota", o.cpuQuota},
	} {
		if l.value == "" {
			continue
		}
		s.Limits = append(s.Limits, unit.LimitAsked{Name: l.name, Value: l.value})
	}
	s.OutputMax, err = size("output-max", o.outputMax)
	return err
}

// environment decides the job's environment.
func (o *jobOptions) environment(s *unit.Spec) error {
	var set []string
	for _, kv := range o.setenv {
		name, _, assigned := strings.Cut(kv, "=")
		if !launch.IsVariable(name) {
			return &usageError{"cannot use --setenv " + quote(kv) + ": NAME or NAME=VALUE is expected", "a name has A-Z a-z 0-9 _ and does not start with a digit"}
		}
		if err := launch.CheckVariable(name); err != nil {
			return wrong("setenv", kv, err)
		}
		if !assigned {
			kv = name + "=" + os.Getenv(name) // systemd-run too gives an empty one where there is none
		}
		set, s.Assigned = append(set, kv), append(s.Assigned, name)
	}
	s.Env = unit.Environ(os.Environ(), set, o.cleanEnv)
	o.search = s.Env
	if o.cleanEnv {
		o.search = unit.Environ(os.Environ(), set, false)
	}
	return nil
}

// locate finds directory and executable.
func (o *jobOptions) locate(s *unit.Spec) error {
	if s.Remote.Named() {
		return nil // they are there
	}
	return launch.Locate(s, o.dir, o.search)
}
