package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// Who builds a release says what it is by -ldflags -X (see the Makefile): it
// is built without a stamp of the repository, so that a tree without one gives
// the same bytes. Empty is not known: then the build's own information says it.
var (
	releaseVersion string // without a v
	releaseCommit  string
	releaseDate    string // of the commit, RFC 3339
)

// identity is which unitward this is.
type identity struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Go      string `json:"go"`
}

// readIdentity takes what the linker was told, and where it was told nothing
// what the go command noted by itself.
func readIdentity() identity {
	id := identity{releaseVersion, releaseCommit, releaseDate, runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok || id.Version != "" {
		return id
	}
	id.Version = strings.TrimPrefix(info.Main.Version, "v")
	changed := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			id.Commit = s.Value
		case s.Key == "vcs.time":
			id.Date = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "-dirty"
		}
	}
	if id.Commit != "" {
		id.Commit += changed
	}
	return id
}

// String is what cobra's --version prints after "version"; what is not known
// is left out. That option has the same words: a template of one's own would
// bring text/template with it, and a seventh megabyte.
func (id identity) String() string {
	version := id.Version
	if version == "" {
		version = "(devel)"
	}
	var more []string
	if id.Commit != "" {
		more = append(more, "commit "+id.Commit)
	}
	if id.Date != "" {
		more = append(more, id.Date)
	}
	return version + " (" + strings.Join(append(more, id.Go), ", ") + ")"
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which unitward this is",
		Long:  "version prints the version, the commit and its date, and the Go that built it.",
		Args:  none,
		RunE: func(*cobra.Command, []string) error {
			id := readIdentity()
			if a.json {
				return printJSON(a.Out, id)
			}
			_, err := fmt.Fprintln(a.Out, "unitward version", id)
			return err
		},
	}
}
