package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

// pair is two options that cannot both hold, and why.
type pair struct{ a, b, why string }

// pairs are those of all verbs: what an option means does not depend on its verb.
var pairs = [...]pair{
	{"user", "system", "one manager holds a unit"},
	{"working-directory", "same-dir", "each names the directory"},
	{"root-directory", "same-root-dir", "each names the root directory"},
	{"wait", "no-block", "one waits for the end, the other for nothing"},
	{"scope", "cgroup-parent", "the manager makes the cgroup of a scope"},
	{"orphans", "all", "a settled job is nobody's orphan"},
	{"job-dir", "state-dir", "each says where the record is"},
	{"read-only", "take", "who takes the keys types"},
}

// checkPairs refuses options that were given together and cannot both hold.
func checkPairs(cmd *cobra.Command) error {
	for _, p := range pairs {
		if on(cmd.Flags(), p.a) && on(cmd.Flags(), p.b) {
			return usage("cannot use --%s and --%s together: %s", p.a, p.b, p.why)
		}
	}
	return nil
}

// on is true for an option that was given, and not to say no.
func on(f *pflag.FlagSet, name string) bool {
	o := f.Lookup(name)
	return o != nil && o.Changed && (o.Value.Type() != "bool" || o.Value.String() == "true")
}

// fits refuses options of a job that cannot both hold, as far as that depends
// on what they came to.
func (o *jobOptions) fits(cmd *cobra.Command, s *unit.Spec) error {
	given := func(name string) bool { return on(cmd.Flags(), name) }
	var fields []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if given(f.Name) {
			fields = append(fields, fieldOf(f.Name))
		}
	})
	if err := launch.CheckAssigned(o.properties, fields); err != nil {
		return o.named(err)
	}
	rungs := strings.Join(s.Isolation, ",")
	if !slices.Contains(s.Isolation, verify.IsolationService) && given("service-type") {
		return usage("cannot use --service-type with isolation %s: no service holds such a job", rungs)
	}
	if s.Output != unit.OutputCapture {
		for _, option := range []string{"output-max", "on-output-max"} {
			if given(option) {
				return &usageError{"cannot use --" + option + " with output " + string(s.Output) + ": nothing is captured", "add --output capture, or leave it out"}
			}
		}
	}
	if given("pipe") && (given("output") && s.Output != unit.OutputInherit || given("stdin") && s.Stdin != unit.InputInherit) {
		return usage("cannot use --pipe with --stdin %s and --output %s: it passes the caller's streams", s.Stdin, s.Output)
	}
	if s.Lifetime == unit.LifetimeOwner && s.DetachAfter > 0 {
		return usage("cannot use --detach-after with --lifetime owner: a job that is let go ends with nobody")
	}
	return nil
}
