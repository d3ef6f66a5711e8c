package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// listOptions are the options of list.
type listOptions struct {
	launch.Filter
	watch bool
}

func (a *app) listCommand() *cobra.Command {
	var o listOptions
	cmd := &cobra.Command{
		Use:   "list [OPTIONS]",
		Short: "List jobs",
		Long: "list looks at every job that is not settled and prints a line each. With --watch\n" +
			"it goes on, with what each uses, once a second.",
		Args: none,
		RunE: func(*cobra.Command, []string) error { return a.list(o) },
	}
	cmd.Flags().StringVar(&o.Owner, "owner", "", "only jobs with this owner's `LABEL`")
	cmd.Flags().BoolVarP(&o.All, "all", "a", false, "settled jobs too")
	cmd.Flags().BoolVar(&o.Orphans, "orphans", false, "only live jobs whose owner or launcher is gone")
	cmd.Flags().BoolVarP(&o.watch, "watch", "w", false, "print the list again and again, with what each job uses")
	return cmd
}

func (a *app) list(o listOptions) error {
	ctx := context.Background()
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	l.SweepTriggers(ctx)
	if o.watch {
		return a.watchList(ctx, l, o)
	}
	rows, err := a.rows(ctx, l, o)
	if err != nil {
		return err
	}
	if a.json {
		return printJSON(a.Out, objects(rows))
	}
	return a.printRows(rows)
}

// objects are the rows as JSON has them.
func objects(rows []row) []any {
	out := make([]any, len(rows))
	for i, r := range rows {
		if out[i] = r.rep; r.bad != nil {
			out[i] = r.bad
		}
	}
	return out
}

func (a *app) printRows(rows []row) error {
	w := tabwriter.NewWriter(a.Out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tRESULT\tAGE\tPID\tCOMMAND")
	for _, r := range rows {
		if r.bad != nil {
			// One bad record hides no other job.
			fmt.Fprintf(a.Err, "unitward: %s\n", oneLine(r.bad.Error.Message))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.rep.Name, r.state(), result(*r.rep), age(*r.rep), pid(*r.rep), commandLine(r.rep.Command, 48))
	}
	return w.Flush()
}

// row is a job in a list.
type row struct {
	// rep is nil where bad is not, and rec too.
	rep *unit.Report
	rec *unit.Record
	bad *badRecord
	// foreign says whose record it is, when it is not ours.
	foreign string
}

func (r row) state() string {
	if r.foreign != "" {
		return "foreign"
	}
	return stateOf(*r.rep)
}

// badRecord is a job whose record cannot be used.
type badRecord struct {
	Name string `json:"name"`
	errorObject
}

// rows looks at the jobs that are wanted.
func (a *app) rows(ctx context.Context, l *launch.Launcher, o listOptions) ([]row, error) {
	found, err := l.Names()
	if err != nil {
		return nil, err
	}
	rows := []row{}
	for i, g := range glances(ctx, l, found, o.Wants) {
		var gone *unit.NotFoundError
		switch {
		case errors.As(g.err, &gone): // it was dropped meanwhile
		case g.seen == nil && g.err != nil:
			rows = append(rows, row{bad: &badRecord{found[i], objectOf(g.err)}})
		case g.seen != nil && o.Shows(g.seen):
			if !a.json {
				a.warn(g.err)
			}
			rows = append(rows, row{rep: &g.seen.Report, rec: g.seen.Record, foreign: g.seen.Foreign})
		}
	}
	return rows, nil
}

// glance is what a glance at one job came to.
type glance struct {
	seen *launch.Sight
	err  error
}

const (
	// fewJobs are looked at one after the other: a thread more would cost as
	// much as that.
	fewJobs = 64
	// glancesAtATime is how many of more are: a glance is some dozens of system
	// calls.
	glancesAtATime = 4
)

// glances looks at jobs, and answers in their order.
func glances(ctx context.Context, l *launch.Launcher, names []string, wants func(*unit.Record) bool) []glance {
	all := make([]glance, len(names))
	look := func(i int) { all[i].seen, all[i].err = l.Glance(ctx, names[i], wants) }
	if len(names) <= fewJobs {
		for i := range names {
			look(i)
		}
		return all
	}
	runtime.SetDefaultGOMAXPROCS()
	var next atomic.Int64
	var looking sync.WaitGroup
	for range glancesAtATime {
		looking.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				look(int(i))
			}
		})
	}
	looking.Wait()
	return all
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
