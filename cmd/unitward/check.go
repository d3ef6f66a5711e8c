package main

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// checkOptions refuses values that mean nothing, and options that cannot both
// hold.
func checkOptions(cmd *cobra.Command) error {
	if err := checkValues(cmd); err != nil {
		return err
	}
	return checkPairs(cmd)
}

// checkValues refuses what no option that takes one text means: an empty value,
// which would silently be none, and bytes that no record and no manager can
// carry. Properties and variables are lists, and an empty one is no NAME=VALUE.
func checkValues(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err != nil || f.Value.Type() != "string" {
			return
		}
		switch v := f.Value.String(); {
		case v == "" && f.Name != "description" && f.Name != "background": // for none, as in systemd-run
			err = &usageError{"cannot use --" + f.Name + " with an empty value", "give it a value, or leave it out"}
		case !utf8.ValidString(v) && !takesBytes(f.Name):
			err = usage("cannot use --%s %s: it is not valid UTF-8", f.Name, quote(v))
		}
	})
	return err
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
		text = strings.TrimSuffix(text, number.Error()) + "a whole number is expected"
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && isTrigger(unknown.GetSpecifiedName()) {
		return &usageError{"cannot read the options: " + text, "what starts a job later, or again and again, is made by unitward start"}
	}
	return &usageError{"cannot read the options: " + text, cmd.CommandPath() + " --help lists them"}
}
