package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// transientUnits are where managers have the files of their transient units: the
// system's, and those of users.
var transientUnits = []string{"/run/systemd/transient/*", "/run/user/*/systemd/transient/*"}

// units are the files of the machine's transient units, but for what logind makes
// for whoever logs in.
func (m *Machine) units() []string {
	var all []string
	for _, pattern := range transientUnits {
		paths, _ := filepath.Glob(m.path(pattern)) // the pattern is a good one
		for _, path := range paths {
			name := filepath.Base(path)
			if filepath.Ext(name) != ".d" && !strings.HasPrefix(name, "session-") {
				all = append(all, path)
			}
		}
	}
	return all
}

// leftUnits waits for the transient units that were not there before to go by
// themselves, and returns the files of those that do not. They are ended.
func (m *Machine) leftUnits(ctx context.Context, before []string) []string {
	return m.endUnits(ctx, staying(func() []string {
		if ctx.Err() != nil {
			return nil
		}
		return slices.DeleteFunc(m.units(), func(path string) bool { return slices.Contains(before, path) })
	}, func(path string) bool { return strings.HasPrefix(filepath.Base(path), guardsName) }))
}

// endUnits ends transient units, of which it gets the files, and returns what they
// are called. The files of users are of the one user that there is.
func (m *Machine) endUnits(ctx context.Context, files []string) (names []string) {
	for _, path := range files {
		name, user, manager := filepath.Base(path), "root", "--system"
		if strings.Contains(path, "/run/user/") {
			user, manager = users[1], "--user"
		}
		// One that has ended and failed is only forgotten.
		_, _ = m.Output(ctx, user, "systemctl", manager, "stop", "--", name)
		_, _ = m.Output(ctx, user, "systemctl", manager, "reset-failed", "--", name)
		names = append(names, "unit "+name+" of the manager of "+user)
	}
	return names
}
