package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Say which isolation works here, and what it can prove",
		Long: "doctor looks for the managers and what they can do for this user, and says for\n" +
			"each that does not work why not and what would help. It changes nothing.",
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
	found := l.Examine(context.Background())
	if a.json {
		if err := printJSON(a.Out, found); err != nil {
			return err
		}
	} else {
		for _, m := range found.Managers {
			a.printManager(m)
		}
		fmt.Fprintf(a.Out, "cgroup2: %s\n", found.Cgroup2)
	}
	for _, m := range found.Managers {
		if m.Works {
			return nil
		}
	}
	return &statusError{exitError}
}

func (a *app) printManager(m launch.ManagerFinding) {
	if !m.Works {
		fmt.Fprintf(a.Out, "service (%s manager): does not work: %s\n", m.Manager, m.Problem)
		for _, h := range m.Hints {
			fmt.Fprintf(a.Out, "  hint: %s\n", h)
		}
		return
	}
	fmt.Fprintf(a.Out, "service (%s manager): works: systemd %d at %s\n", m.Manager, m.Version, m.Address)
	fmt.Fprintf(a.Out, "  exit: %s\n  tree: %s\n", m.ExitProof, m.TreeProof)
	for _, l := range m.Limits {
		state := "holds"
		if !l.Holds {
			state = "does not hold: " + l.Why
		}
		fmt.Fprintf(a.Out, "  %s: %s\n", l.Name, state)
	}
	if m.Manager == unit.ManagerUser && !m.Lingers {
		fmt.Fprintln(a.Out, "  lifetime: the manager ends with the last login; to keep it: loginctl enable-linger")
	}
	if len(m.Hints) > 0 {
		fmt.Fprintf(a.Out, "  hint: %s\n", strings.Join(m.Hints, "\n  hint: "))
	}
}
