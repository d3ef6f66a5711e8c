package main

import (
	"os"
	"slices"
	"strings"
)

// The suites of a run have one kernel, that of the host. What asks no manager for
// anything is tested in the last of them alone: it is the same in all of them, and
// half of all tests.

// unmanagedPackages ask no manager for anything; a slash takes in those below.
var unmanagedPackages = []string{"fallback/", "unit/keeper"}

// managedIsolations are those that a manager holds, as UNITWARD_TEST_ISOLATION
// lists them.
const (
	isolationVariable = "UNITWARD_TEST_ISOLATION"
	managedIsolations = "service,scope"
)

func (b testBinary) unmanaged() bool {
	return slices.ContainsFunc(unmanagedPackages, func(p string) bool {
		return b.Dir == p || strings.HasSuffix(p, "/") && strings.HasPrefix(b.Dir, p)
	})
}

// spares is true for a suite that comes before another.
func (o *options) spares(s Suite) bool {
	return slices.Contains(o.suites, s) && s != o.suites[len(o.suites)-1]
}

// isolations are what a suite's tests are told of the isolations to test; nothing is
// all of them.
func (o *options) isolations(s Suite) []string {
	if _, told := os.LookupEnv(isolationVariable); told || !o.spares(s) {
		return nil
	}
	return []string{isolationVariable + "=" + managedIsolations}
}

// spared says what is not repeated, for the report.
func (o *options) spared() string {
	var sparing []string
	for _, s := range o.suites {
		if o.spares(s) {
			sparing = append(sparing, s.Name)
		}
	}
	if len(sparing) == 0 {
		return ""
	}
	return "in " + o.suites[len(o.suites)-1].Name + " alone, and not in " + strings.Join(sparing, ", ") + ", whose kernel is the same: " + strings.Join(unmanagedPackages, ", ") + ", and all isolations but " + managedIsolations
}
