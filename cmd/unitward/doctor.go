package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/launch"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say which isolation works here, and what it can prove",
		Long: "doctor runs the command true in each isolation and says what proved its end, or\n" +
			"why the isolation does not work and what would help. It leaves nothing behind.\n" +
			"The exit status is 125 when no isolation works.",
		Args: none,
		RunE: func(*cobra.Command, []string) error { return a.doctor() },
	}
}

func (a *app) doctor() error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	defer l.Close()
	found := l.Examine(context.Background(), keeper.ReadCaller())
	if a.json {
		if err := printJSON(a.Out, found); err != nil {
			return err
		}
	} else if err := a.printFindings(found); err != nil {
		return err
	}
	if found.Auto == "" {
		return &statusError{exitError}
	}
	return nil
}

func (a *app) printFindings(found launch.Findings) error {
	var b strings.Builder
	for _, r := range found.Rungs {
		printRung(&b, r)
	}
	for _, n := range found.Notes {
		printNote(&b, "note", n)
	}
	if found.Auto != "" {
		fmt.Fprintf(&b, "jobs are held by: %s\n", found.Auto)
	} else {
		fmt.Fprintln(&b, "jobs cannot be held here")
	}
	_, err := fmt.Fprint(a.Out, b.String())
	return err
}

func printRung(b *strings.Builder, r launch.RungFinding) {
	name := r.Isolation
	if r.Manager != "" {
		name += " (" + string(r.Manager) + " manager)"
	}
	if !r.Works {
		fmt.Fprintf(b, "%s: does not work: %s\n", name, r.Problem)
		for _, h := range r.Hints {
			fmt.Fprintf(b, "  hint: %s\n", h)
		}
		return
	}
	where := r.Place
	if r.Version != 0 {
		where = fmt.Sprintf("systemd %d at %s", r.Version, r.Address)
	}
	if where != "" {
		where = ": " + where
	}
	fmt.Fprintf(b, "%s: works%s\n  exit: %s\n  tree: %s\n", name, where, r.ExitProof, r.TreeProof)
	for _, l := range r.Limits {
		state := "holds"
		if !l.Holds {
			state = "does not hold: " + l.Why
		}
		fmt.Fprintf(b, "  %s: %s\n", l.Name, state)
	}
	for _, n := range r.Caveats {
		printNote(b, "  but", n)
	}
}

func printNote(b *strings.Builder, title string, n launch.Note) {
	fmt.Fprintf(b, "%s: %s\n", title, n.What)
	if n.Hint != "" {
		fmt.Fprintf(b, "  hint: %s\n", n.Hint)
	}
}
