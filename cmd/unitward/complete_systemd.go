package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// completeWith offers assignments of properties. No space follows: a value does,
// or more of it.
func completeWith(propose func(start string) []string) completer {
	return func(_ *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return propose(word), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

func completeTrigger(t property.Trigger) completer {
	return completeWith(func(start string) []string { return property.CompleteTrigger(t, start) })
}

// machines is where systemd-machined has those that run (sd_get_machine_names(3)).
const machines = "/run/systemd/machines"

// completeMachines offers this machine, by its name for -M, and those that run
// on it.
func completeMachines(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	out := []string{unit.ThisMachine}
	entries, _ := os.ReadDir(machines) // without it there are none
	for _, e := range entries {
		if e.Type().IsRegular() { // a link leads from a unit to its machine
			out = append(out, e.Name())
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// cgroupRoot is where the unified hierarchy is mounted (cgroups(7)), or else
// there is none to look at.
const cgroupRoot = "/sys/fs/cgroup"

// completeSlices offers the slices that have a cgroup, and those that have a
// file, of the manager that would be asked.
func completeSlices(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	uid := os.Geteuid()
	manager := launch.DefaultManager(uid)
	for name, m := range map[string]unit.Manager{"user": unit.ManagerUser, "system": unit.ManagerSystem} {
		if given, err := cmd.Flags().GetBool(name); err == nil && given {
			manager = m
		}
	}
	root, kind := cgroupRoot, "system"
	if manager == unit.ManagerUser {
		id := strconv.Itoa(uid)
		root, kind = filepath.Join(cgroupRoot, "user.slice", "user-"+id+".slice", "user@"+id+".service"), "user"
	}
	out := slicesBelow(root)
	for _, dir := range []string{"/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd"} {
		files, _ := filepath.Glob(filepath.Join(dir, kind, "*.slice"))
		for _, f := range files {
			out = append(out, filepath.Base(f))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), cobra.ShellCompDirectiveNoFileComp
}

// slicesBelow are the slices in a cgroup, through slices alone. What cannot be
// read has none to offer.
func slicesBelow(root string) (out []string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir():
			return nil
		case path == root:
			return nil
		case !strings.HasSuffix(d.Name(), ".slice"):
			return fs.SkipDir
		}
		out = append(out, d.Name())
		return nil
	})
	return out
}
