package main

import (
	"os"
	"slices"
	"strings"
)

// A run that spares leaves out what another machine of it shows as well. The suites
// have one kernel, that of the host: what asks no manager for anything is tested in
// the last of them alone, and as root, which the unit tests are too, by the scripts.
// As an ordinary user the others have the scripts and the disturbances: what else a
// user's manager does, the last shows, and root's passes show of each version. Scopes
// are tested whole in the first and the last, and by the scripts in those between. On
// the host itself, isolation group is left out, which depends on nothing there.

// unmanagedPackages ask no manager for anything; a slash takes in those below.
var unmanagedPackages = []string{"fallback/", "unit/keeper"}

const (
	isolationVariable = "UNITWARD_TEST_ISOLATION"
	// managedIsolations are those that a manager holds, as the variable lists
	// them, and unmanagedIsolations the others.
	managedIsolations   = "service,scope"
	unmanagedIsolations = "cgroup,group"
	// scripts are the tests of the command line.
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

// sparing are the passes of a suite in the place of an undisturbed one of both users.
func (o *options) sparing(s Suite, undisturbed pass) []pass {
	root, tester := undisturbed, undisturbed
	root.users, root.isolations = []string{"root"}, managedIsolations
	if tester.users = []string{"tester"}; o.spares(s) {
		tester = pass{users: tester.users, run: scripts, only: "tests/e2e", isolations: managedIsolations}
		if s == o.suites[0] {
			return []pass{root, tester}
		}
		root.isolations = "service"
		return []pass{root, {users: root.users, run: scripts, only: "tests/e2e", isolations: "scope", log: "scope-"}, tester}
	}
	return []pass{root, {users: root.users, run: scripts, only: "tests/e2e", isolations: unmanagedIsolations, log: "unmanaged-"}, tester}
}

// environment is what the tests of a pass are told of the isolations to test.
func (p pass) environment() []string {
	if _, told := os.LookupEnv(isolationVariable); told || p.isolations == "" {
		return nil
	}
	return []string{isolationVariable + "=" + p.isolations}
}

// spared says what is not repeated, for the report; empty is nothing.
func (o *options) spared() string {
	var names []string
	for _, s := range o.suites {
		if o.spares(s) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "spared " + strings.Join(names, ", ") + ": " + strings.Join(unmanagedPackages, ", ") + ", isolations " + unmanagedIsolations +
		", and as tester all but " + scripts + " and " + disturbing + "; between the first and the last, scopes but for " + scripts + "; on the host, group"
}
