package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

func (a *app) verifyCommand() *cobra.Command {
	var dir string
	var weak bool
	cmd := &cobra.Command{
		Use:   "verify NAME | --job-dir DIR",
		Short: "Look again whether a job has ended, and on what evidence",
		Long: "verify looks at a job, again and again for at most two seconds, and returns 0\n" +
			"when its end is confirmed: the exit is known and no process is left. Else it\n" +
			"returns 123 and says what is missing and what can be done.",
		ValidArgsFunction: a.completeNames,
	}
	cmd.Flags().StringVar(&dir, "job-dir", "", "take the job whose record is in `DIR`")
	cmd.Flags().BoolVar(&weak, "accept-weak", false, "let it do that a process group is gone and no process carries the job's mark, where its keeper was killed")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dir != "" {
			if len(args) > 0 {
				return usage("cannot use --job-dir and a name together")
			}
			state, name, err := store.SplitDir(dir)
			if err != nil {
				return &usageError{"cannot use --job-dir " + quote(dir) + ": " + err.Error(), "it is the directory jobs/NAME below that of --state-dir, with job.json in it"}
			}
			a.stateDir, args = state, []string{name}
		}
		if err := oneName(cmd, args); err != nil {
			return err
		}
		return a.verify(args[0], weak)
	}
	return cmd
}

func (a *app) verify(arg string, weak bool) error {
	ctx := context.Background()
	name, err := jobName(arg)
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
	j.SeekLeft()
	rep, err := j.Verify(ctx, weak)
	if !looked(rep) {
		return err
	}
	a.warn(err)
	err = nil
	switch {
	case a.json:
		err = printJSON(a.Out, rep)
	case rep.Confirmed:
		_, err = fmt.Fprintf(a.Out, "%s: confirmed: %s%s\n  exit: %s\n  tree: %s\n%s", rep.Name, result(rep), grade(rep), rep.Exit.Source, rep.Tree.Source, leftLines("  left: ", rep))
	default:
		fmt.Fprintf(a.Out, "%s: not confirmed: %s\n", rep.Name, rep.State)
		printMissing(a.Out, rep)
	}
	if err == nil && !rep.Confirmed {
		return &statusError{exitUnconfirmed}
	}
	return err
}

// grade says what a confirmation rests on, where it is not proof.
func grade(rep unit.Report) string {
	if rep.Grade == verify.GradeWeak {
		return ", on weak evidence"
	}
	return ""
}
