package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// report is everything that a call of the driver found out.
type report struct {
	Runs   []testRun
	NotRun []string // what could not run here, and why
	Failed []string // what had to run and could not
}

// cannot notes that something did not run; it is a failure where it is required.
func (r *report) cannot(what, required string, err error) {
	line := what + ": " + err.Error()
	if isRequired(required) {
		r.Failed = append(r.Failed, line+" (UNITWARD_REQUIRE has "+required+")")
		return
	}
	r.NotRun = append(r.NotRun, line)
}

// print writes the summary; its last line is the count of all tests.
func (r *report) print(w io.Writer) (failed bool) {
	r.printFailures(w)
	r.printSkips(w)
	r.printCounts(w)
	for _, f := range r.Failed {
		fmt.Fprintf(w, "FAIL %s\n", f)
	}
	if len(r.NotRun) > 0 {
		fmt.Fprintf(w, "\n%s\nNOT EVERYTHING COULD RUN HERE:\n", strings.Repeat("!", 64))
		for _, n := range r.NotRun {
			fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(n, "\n", "\n    "))
		}
		fmt.Fprintf(w, "%s\n", strings.Repeat("!", 64))
	}
	var total count
	for _, run := range r.Runs {
		total = total.plus(run.count())
	}
	total.failed += len(r.Failed)
	fmt.Fprintf(w, "\n%s\n", total)
	return total.failed > 0
}

func (r *report) printFailures(w io.Writer) {
	for _, run := range r.Runs {
		for _, o := range run.Outcomes {
			if o.Action != "fail" {
				continue
			}
			name := o.Test
			if name == "" {
				name = whole
			}
			fmt.Fprintf(w, "\nFAIL %s %s %s %s\n", run.Where, run.User, run.Package, name)
			fmt.Fprintf(w, "%s\n", indent(lastLines(o.Output, 80)))
			fmt.Fprintf(w, "    log: %s\n", run.Log)
		}
		if run.Err != nil {
			fmt.Fprintf(w, "\nFAIL %s %s %s: %s\n    log: %s\n", run.Where, run.User, run.Package, run.Err, run.Log)
		}
	}
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

// skipsShown is how many skipped subtests of one test are named one by one.
const skipsShown = 3

// printSkips names each skipped test with its reason, and where it was skipped.
// Of many subtests it names the first and says where the others stand.
func (r *report) printSkips(w io.Writer) {
	type skip struct{ parent, text string }
	var order []skip
	where := map[skip][]string{}
	for _, run := range r.Runs {
		for _, o := range run.Outcomes {
			if o.Action != "skip" {
				continue
			}
			parent, _, _ := strings.Cut(o.Test, "/")
			k := skip{run.Package + " " + parent, fmt.Sprintf("%s %s: %s", run.Package, o.Test, o.Reason())}
			if where[k] == nil {
				order = append(order, k)
			}
			where[k] = append(where[k], strings.TrimSpace(shortName(run.Where)+" "+run.User))
		}
	}
	if len(order) > 0 {
		fmt.Fprintln(w)
	}
	shown := map[string]int{}
	for _, k := range order {
		if shown[k.parent]++; shown[k.parent] <= skipsShown {
			fmt.Fprintf(w, "skip %s [%s]\n", k.text, strings.Join(where[k], ", "))
		}
	}
	for _, k := range order {
		if more := shown[k.parent] - skipsShown; more > 0 {
			fmt.Fprintf(w, "skip %s: %d more subtests, each with its reason in the logs\n", k.parent, more)
			shown[k.parent] = 0
		}
	}
}

func shortName(where string) string {
	name, _, _ := strings.Cut(where, " (")
	return name
}

// printCounts has a line for each place and user.
func (r *report) printCounts(w io.Writer) {
	type line struct {
		where, user string
		count       count
		took        time.Duration
		left        int
	}
	var lines []*line
	for _, run := range r.Runs {
		i := slices.IndexFunc(lines, func(l *line) bool { return l.where == run.Where && l.user == run.User })
		if i < 0 {
			lines = append(lines, &line{where: run.Where, user: run.User})
			i = len(lines) - 1
		}
		lines[i].count = lines[i].count.plus(run.count())
		lines[i].took += run.Took
		lines[i].left += run.Left
	}
	if len(lines) > 0 {
		fmt.Fprintln(w)
	}
	for _, l := range lines {
		verdict := "ok  "
		if l.count.failed > 0 {
			verdict = "FAIL"
		}
		fmt.Fprintf(w, "%s %-28s %-7s %s, %.1fs", verdict, l.where, l.user, l.count, l.took.Seconds())
		if l.left > 0 {
			fmt.Fprintf(w, ", %d processes left behind", l.left)
		}
		fmt.Fprintln(w)
	}
}
