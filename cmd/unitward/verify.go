package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
)

func (a *app) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify NAME",
		Short: "Look again whether a job has ended, and on what evidence",
		Long: "verify looks at a job, again and again for at most two seconds, and returns 0\n" +
			"when its end is confirmed: the exit is known and no process is left. Else it\n" +
			"returns 123 and says what is missing and what can be done.",
		Args:              oneName,
		ValidArgsFunction: a.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.verify(args[0]) },
	}
}

func (a *app) verify(arg string) error {
	ctx := context.Background()
	name, err := unit.ParseName(arg)
	if err != nil {
		return err
	}
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	j, err := l.Open(ctx, name)
	if err != nil {
		return err
	}
	defer j.Close()
	rep, err := j.Verify(ctx)
	if err != nil {
		return err
	}
	switch {
	case a.json:
		err = printJSON(a.Out, rep)
	case rep.Confirmed:
		_, err = fmt.Fprintf(a.Out, "%s: confirmed: %s\n  exit: %s\n  tree: %s\n", rep.Name, result(rep), rep.Exit.Source, rep.Tree.Source)
	default:
		fmt.Fprintf(a.Out, "%s: not confirmed: %s\n", rep.Name, rep.State)
		printMissing(a.Out, rep)
	}
	if err == nil && !rep.Confirmed {
		return &statusError{exitUnconfirmed}
	}
	return err
}
