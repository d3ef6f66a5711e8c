package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

// change is one row in two collections.
type change struct {
	label    string
	old, new row
}

// compareFiles prints what has changed from one collection to another.
func compareFiles(w io.Writer, oldPath, newPath string) error {
	older, err := readCollection(oldPath)
	if err != nil {
		return err
	}
	newer, err := readCollection(newPath)
	if err != nil {
		return err
	}
	return printChanges(w, older.Commit, newer.Commit, changes(older, newer))
}

func readCollection(path string) (*collection, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var c collection
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if c.Schema != schema {
		return nil, fmt.Errorf("cannot compare %s: its schema is %q, not %q", path, c.Schema, schema)
	}
	return &c, nil
}

// changes pairs the rows that both have figures for, in the order of the newer.
func changes(older, newer *collection) []change {
	type key struct{ label, group, name string }
	had := map[key]row{}
	for _, d := range older.Runs {
		for _, r := range d.Rows {
			had[key{d.Label, r.Group, r.Name}] = r
		}
	}
	var out []change
	for _, d := range newer.Runs {
		for _, r := range d.Rows {
			if o, ok := had[key{d.Label, r.Group, r.Name}]; ok && o.N > 0 && r.N > 0 {
				out = append(out, change{d.Label, o, r})
			}
		}
	}
	return out
}

// printChanges writes them. How a row stands to its reference is of more weight
// than its figure: another day's machine is another machine.
func printChanges(w io.Writer, before, after string, all []change) error {
	fmt.Fprintf(w, "from %s to %s\n", before, after)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WHERE\tWHAT\tWHO\tOLD\tNEW\tUNIT\tNEW/OLD\tRATIO OLD\tRATIO NEW\tTO\t")
	for _, c := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%.2f\t", c.label, c.new.Group, c.new.Name, figure(c.old.P50), figure(c.new.P50), c.new.Unit, over(c.new.P50, c.old.P50))
		before, after, to := c.ratios()
		fmt.Fprintf(t, "%s\t%s\t%s\t\n", before, after, to)
	}
	return t.Flush()
}

// ratios are those to the first reference that both have.
func (c change) ratios() (before, after, to string) {
	for _, n := range c.new.Against {
		for _, o := range c.old.Against {
			if n.To != "" && n.To == o.To && n.Value > 0 && o.Value > 0 {
				return fmt.Sprintf("%.2f", o.Value), fmt.Sprintf("%.2f", n.Value), n.To
			}
		}
	}
	return "", "", ""
}

// over is a ratio, 0 where there is none.
func over(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
