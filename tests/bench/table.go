package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// document is all that was measured in one suite as one user.
type document struct {
	// Label names suite and user.
	Label string `json:"label"`
	// When is the time of day of the beginning (RFC 3339).
	When   string `json:"when"`
	Kernel string `json:"kernel"`
	CPUs   int    `json:"cpus"`
	// LoadBefore and LoadAfter are the host's load averages over one minute.
	LoadBefore float64 `json:"load_before"`
	LoadAfter  float64 `json:"load_after"`
	Rows       []row   `json:"rows"`
}

// collection is what is written for one commit.
type collection struct {
	Schema string     `json:"schema"`
	Commit string     `json:"commit"`
	Runs   []document `json:"runs"`
}

// schema names the form of a collection.
const schema = "unitward.bench/1"

// print writes the table. A row with several comparisons has a line for each.
func (d *document) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %s, %d processors, load %.2f before, %.2f after\n", d.Label, d.Kernel, d.CPUs, d.LoadBefore, d.LoadAfter)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHAT\tWHO\tP50\tP95\tUNIT\tN\tRATIO\tTO\tTARGET\t")
	for _, r := range d.Rows {
		r.print(t)
	}
	return t.Flush()
}

func (r *row) print(w io.Writer) {
	if r.N == 0 {
		fmt.Fprintf(w, "%s\t%s\t-\t-\t%s\t0\t\t\tLACKING: %s\t\n", r.Group, r.Name, r.Unit, r.Lacking)
		return
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t", r.Group, r.Name, figure(r.P50), figure(r.P95), r.Unit, r.N)
	if len(r.Against) == 0 {
		fmt.Fprintln(w, "\t\t\t")
	}
	for i, c := range r.Against {
		if i > 0 {
			fmt.Fprint(w, "\t\t\t\t\t\t")
		}
		ratio, to := "", c.To
		if to != "" && c.Value > 0 {
			ratio = fmt.Sprintf("%.2f", c.Value)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", ratio, to, joined(c.bound(), c.verdict()))
	}
}

// joined puts a target and whether it is reached together.
func joined(bound, verdict string) string {
	if bound == "" {
		return ""
	}
	return bound + " " + verdict
}

// figure writes a figure with the digits that mean something.
func figure(f float64) string {
	switch {
	case f >= 1000:
		return fmt.Sprintf("%.0f", f)
	case f >= 100:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
