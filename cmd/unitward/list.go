package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
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
	rows := []row{}
	for _, name := range found {
		r, shown := a.row(ctx, l, name, owner, all)
		if shown {
			rows = append(rows, r)
		}
	}
	if a.json {
		objects := make([]any, len(rows))
		for i, r := range rows {
			if objects[i] = r.rep; r.bad != nil {
				objects[i] = r.bad
			}
		}
		return printJSON(a.Out, objects)
	}
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tRESULT\tAGE\tPID\tCOMMAND")
	for _, r := range rows {
		if r.bad != nil {
			// One bad record hides no other job.
			fmt.Fprintf(a.Err, "unitward: %s\n", r.bad.Error.Message)
			continue
		}
		state := string(r.rep.State)
		if r.foreign != "" {
			state = "foreign"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.rep.Name, state, result(*r.rep), age(*r.rep), pid(*r.rep), commandLine(r.rep.Command, 48))
	}
	return w.Flush()
}

// row is a job in a list.
type row struct {
	// rep is nil where bad is not.
	rep *unit.Report
	bad *badRecord
	// foreign says whose record it is, when it is not ours.
	foreign string
}

// badRecord is a job whose record cannot be used.
type badRecord struct {
	Name string `json:"name"`
	errorObject
}

// row looks at one job; shown is false for one that was not asked for.
func (a *app) row(ctx context.Context, l *launch.Launcher, name, owner string, all bool) (r row, shown bool) {
	bad := func(err error) (row, bool) { return row{bad: &badRecord{name, objectOf(err)}}, true }
	j, err := l.Open(ctx, name)
	var gone *unit.NotFoundError
	switch {
	case errors.As(err, &gone):
		return r, false // it was dropped meanwhile
	case err != nil:
		return bad(err)
	}
	defer j.Close()
	sealed := j.Record().Sealed != nil
	if owner != "" && j.Record().Owner != owner || sealed && !all {
		return r, false
	}
	rep, err := j.Look(ctx)
	if !looked(rep) {
		return bad(err)
	}
	if !a.json {
		a.warn(err)
	}
	return row{rep: &rep, foreign: j.Foreign()}, true
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
