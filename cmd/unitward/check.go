package main

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// checkValues refuses what no option means: an empty value, which would
// silently be none, and bytes that no record and no manager can carry.
func checkValues(cmd *cobra.Command) error {
	for _, name := range textOptions {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			continue
		}
		switch v := f.Value.String(); {
		case v == "":
			return &usageError{"cannot use --" + name + " with an empty value", "give it a value, or leave it out"}
		case !utf8.ValidString(v) && !takesBytes(name):
			return usage("cannot use --%s %s: it is not valid UTF-8", name, quote(v))
		}
	}
	return nil
}

// textOptions are the options of all verbs that take one text. Properties and
// variables are lists, and an empty one is no NAME=VALUE.
var textOptions = [...]string{
	"state-dir", "unit", "isolation", "cgroup-parent", "slice", "description", "working-directory", "uid", "gid",
	"timeout", "grace", "kill-signal", "leftovers", "lifetime", "owner", "memory-max", "tasks-max", "cpu-quota",
	"stdin", "output", "report", "for", "signal", "who", "job-dir",
}

// takesBytes is true for paths, which are any bytes.
func takesBytes(option string) bool {
	switch option {
	case "state-dir", "cgroup-parent", "working-directory", "report", "job-dir":
		return true
	}
	return false
}

// flagError is what a wrong option comes to. A parser's own words are not for
// users.
func flagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	var number *strconv.NumError
	if errors.As(err, &number) {
		text = strings.TrimSuffix(text, number.Error()) + "yes or no is expected"
	}
	return &usageError{"cannot read the options: " + text, cmd.CommandPath() + " --help lists them"}
}
