package main

import (
	"os"
	"slices"
	"strings"
)

// A run that spares leaves out what another machine of it shows as well. The suites
// have one kernel, that of the host: what asks no manager for anything is tested in
// the last of them alone. As an ordinary user, the suites between the first and the
// last have the scripts and the disturbances alone: what a user's manager does
// otherwise, the oldest and the newest show, and root's passes show of each version.

// unmanagedPackages ask no manager for anything; a slash takes in those below.
var unmanagedPackages = []string{"fallback/", "unit/keeper"}

const (
	isolationVariable = "UNITWARD_TEST_ISOLATION"
	// managedIsolations are those that a manager holds, as the variable lists them.
	managedIsolations = "service,scope"
	// scripts are the tests of the command line that the suites between have as
	// an ordinary user.
	scripts = "^(TestScripts|TestServiceScripts)$"
)

func (b testBinary) unmanaged() bool {
	return slices.ContainsFunc(unmanagedPackages, func(p string) bool {
		return b.Dir == p || strings.HasSuffix(p, "/") && strings.HasPrefix(b.Dir, p)
	})
}

// spares is true for a suite that comes before another.
func (o *options) spares(s Suite) bool {
	return o.spare && slices.Contains(o.suites, s) && s != o.suites[len(o.suites)-1]
}

// between is true for a suite that another comes before, too.
func (o *options) between(s Suite) bool { return o.spares(s) && s != o.suites[0] }

// isolations are what a suite's tests are told of the isolations to test; nothing is
// all of them.
func (o *options) isolations(s Suite) []string {
	if _, told := os.LookupEnv(isolationVariable); told || !o.spares(s) {
		return nil
	}
	return []string{isolationVariable + "=" + managedIsolations}
}

// spared says what is not repeated, a line each, for the report.
func (o *options) spared() (lines []string) {
	names := func(which func(Suite) bool) string {
		var out []string
		for _, s := range o.suites {
			if which(s) {
				out = append(out, s.Name)
			}
		}
		return strings.Join(out, ", ")
	}
	if list := names(o.spares); list != "" {
		lines = append(lines, "spared "+list+": "+strings.Join(unmanagedPackages, ", ")+", and all isolations but "+managedIsolations)
	}
	if list := names(o.between); list != "" {
		lines = append(lines, "spared "+list+", as tester: all but "+scripts+" and "+disturbing)
	}
	return lines
}
