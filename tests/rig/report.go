package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
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

// lost notes the tests that no machine ran although they are for machines, with
// their number in each package.
func (r *report) lost(names []string) {
	if len(names) == 0 {
		return
	}
	number := map[string]int{}
	for _, n := range names {
		pkg, _, _ := strings.Cut(n, " ")
		number[pkg]++
	}
	var lines []string
	for _, pkg := range slices.Sorted(maps.Keys(number)) {
		lines = append(lines, fmt.Sprintf("%s: %d, such as %s", pkg, number[pkg], names[slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, pkg+" ") })]))
	}
	r.NotRun = append(r.NotRun, "tests that are for machines, and that none ran:\n"+strings.Join(lines, "\n"))
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
	r.printFailed(w)
	fmt.Fprintf(w, "\n%s\n", total)
	return total.failed > 0
}

// failure is one thing that failed in a run of a test binary: a test, the binary
// itself, or what it left behind.
type failure struct {
	run       testRun
	what, why string
}

func (r *report) failures() (all []failure) {
	for _, run := range r.Runs {
		for _, o := range run.Outcomes {
			if o.Action == "fail" {
				all = append(all, failure{run, cmp.Or(o.Test, whole), o.Output})
			}
		}
		if run.Err != nil {
			all = append(all, failure{run, whole, run.Err.Error()})
		}
		if len(run.Left) > 0 {
			all = append(all, failure{run, "left something behind", strings.Join(run.Left, "\n")})
		}
	}
	return all
}

func (r *report) printFailures(w io.Writer) {
	for _, f := range r.failures() {
		fmt.Fprintf(w, "\nFAIL %s %s %s %s\n%s\n    log: %s\n", f.run.Where, f.run.User, f.run.Package, f.what, indent(lastLines(f.why, 80)), f.run.Log)
	}
}

// A failure is told in brief with its last lines, and no more of each than this.
const (
	briefLines = 3
	briefWidth = 240
)

// printFailed names what failed once more, in so few lines that all of it is seen
// where only the end of a long log is kept.
func (r *report) printFailed(w io.Writer) {
	for _, f := range r.failures() {
		fmt.Fprintf(w, "\nfailed: %s %s %s %s\n", shortName(f.run.Where), f.run.User, f.run.Package, f.what)
		for _, line := range brief(f.why) {
			fmt.Fprintf(w, "    %s\n", line)
		}
	}
	for _, f := range r.Failed {
		fmt.Fprintf(w, "\nfailed: %s\n", f)
	}
}

// brief is the end of what a test printed, without what go test says of its course.
func brief(output string) []string {
	var lines []string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		lines = append(lines, line[:min(len(line), briefWidth)])
	}
	return lines[max(0, len(lines)-briefLines):]
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

// shown is how many names stand for the others of their kind.
const shown = 3

// skips are the tests of a package that were skipped for one reason.
type skips struct {
	pkg, reason  string
	tests, where []string
}

// line names the first tests, the reason, and where it was so.
func (s skips) line() string {
	names := strings.Join(s.tests[:min(shown, len(s.tests))], ", ")
	if more := len(s.tests) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("skip %s %s: %s [%s]", s.pkg, names, s.reason, strings.Join(s.where, ", "))
}

// printSkips names the skipped tests with each reason. Where one test has many
// subtests with a reason each, the logs have the rest.
func (r *report) printSkips(w io.Writer) {
	groups := r.skipGroups()
	if len(groups) > 0 {
		fmt.Fprintln(w)
	}
	printed := map[string]int{}
	for _, g := range groups {
		parent, _, _ := strings.Cut(g.tests[0], "/")
		parent = g.pkg + " " + parent
		if printed[parent]++; printed[parent] <= shown {
			fmt.Fprintln(w, g.line())
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(printed)) {
		if more := printed[parent] - shown; more > 0 {
			fmt.Fprintf(w, "skip %s: %d more reasons, each in the logs\n", parent, more)
		}
	}
}

func (r *report) skipGroups() []*skips {
	var groups []*skips
	for _, run := range r.Runs {
		where := strings.TrimSpace(shortName(run.Where) + " " + run.User)
		for _, o := range run.Outcomes {
			if o.Action != "skip" {
				continue
			}
			reason := o.Reason()
			i := slices.IndexFunc(groups, func(g *skips) bool { return g.pkg == run.Package && g.reason == reason })
			if i < 0 {
				i, groups = len(groups), append(groups, &skips{pkg: run.Package, reason: reason})
			}
			groups[i].tests = addOnce(groups[i].tests, o.Test)
			groups[i].where = addOnce(groups[i].where, where)
		}
	}
	return groups
}

func addOnce(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
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
	}
	if len(lines) > 0 {
		fmt.Fprintln(w)
	}
	for _, l := range lines {
		verdict := "ok  "
		if l.count.failed > 0 {
			verdict = "FAIL"
		}
		fmt.Fprintf(w, "%s %-36s %-7s %s, %.1fs\n", verdict, l.where, l.user, l.count, l.took.Seconds())
	}
}
