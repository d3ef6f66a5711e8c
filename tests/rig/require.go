package main

import (
	"os"
	"slices"
	"strings"
)

// isRequired says whether UNITWARD_REQUIRE names what: then what cannot run is a
// failure.
func isRequired(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("UNITWARD_REQUIRE"), ","), what)
}

// enforce turns the skips that UNITWARD_REQUIRE forbids into failures: those
// whose reason begins with one of names that is required.
func enforce(runs []testRun, names ...string) {
	for _, r := range runs {
		for i, o := range r.Outcomes {
			what, _, _ := strings.Cut(o.Reason(), ":")
			if o.Action == "skip" && slices.Contains(names, what) && isRequired(what) {
				r.Outcomes[i].Action = "fail"
				r.Outcomes[i].Output += "a skip, and UNITWARD_REQUIRE has " + what + "\n"
			}
		}
	}
}
