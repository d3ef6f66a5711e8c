package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/cmd/internal/program"
)

// Who builds a release says what it is by -ldflags -X (see the Makefile): it
// is built without a stamp of the repository, so that a tree without one gives
// the same bytes. Empty is not known: then the build's own information says it.
var (
	releaseVersion string // without a v
	releaseCommit  string
	releaseDate    string // of the commit, RFC 3339
)

// readIdentity says which unitward this is. Cobra's --version has the same words
// as the verb: a template of one's own would bring text/template with it, and a
// seventh megabyte.
func readIdentity() program.Identity {
	return program.ReadIdentity(releaseVersion, releaseCommit, releaseDate)
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
