package main

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
)

func (a *app) listCommand() *cobra.Command {
	var owner string
	var all bool
	cmd := &cobra.Command{
		Use:   "list [OPTIONS]",
		Short: "List jobs",
		Long:  "list looks at every job that is not settled and prints a line each.",
		Args:  none,
		RunE:  func(*cobra.Command, []string) error { return a.list(owner, all) },
	}
	cmd.Flags().StringVar(&owner, "owner", "", "only jobs with this owner's `LABEL`")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "settled jobs too")
	return cmd
}

func (a *app) list(owner string, all bool) error {
	ctx := context.Background()
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	found, err := l.Names()
	if err != nil {
		return err
	}
	reports := []unit.Report{}
	for _, name := range found {
		j, err := l.Open(ctx, name)
		if err != nil {
			printError(a.Err, err) // one bad record hides no other job
			continue
		}
		sealed := j.Record().Sealed != nil
		if owner == "" || j.Record().Owner == owner {
			if rep, err := j.Look(ctx); err != nil {
				printError(a.Err, err)
			} else if all || !sealed {
				reports = append(reports, rep)
			}
		}
		j.Close()
	}
	if a.json {
		return printJSON(a.Out, reports)
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tRESULT\tAGE\tPID\tCOMMAND")
	for _, r := range reports {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.State, result(r), age(r), pid(r), commandLine(r.Command, 48))
	}
	return w.Flush()
}

func age(r unit.Report) string {
	if r.StartedAt == nil {
		return "-"
	}
	end := time.Now()
	if r.EndedAt != nil {
		end = *r.EndedAt
	}
	return end.Sub(*r.StartedAt).Round(time.Second).String()
}

func pid(r unit.Report) string {
	if r.PID == 0 || r.Exit.Known {
		return "-"
	}
	return fmt.Sprint(r.PID)
}
