package main

import (
	"os"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/unitward/unitward/unit"
)

// A triggered service runs somewhere else.
func TestAgainHasNoRelativePath(t *testing.T) {
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cmd := &cobra.Command{}
	for _, option := range []string{"state-dir", "root-directory"} {
		cmd.Flags().String(option, "", "")
		if err := cmd.Flags().Set(option, "below"); err != nil {
			t.Fatal(err)
		}
		if args := again(cmd, "name", &unit.Spec{}); !slices.Contains(args, "--"+option+"="+dir+"/below") {
			t.Errorf("--%s is not in %q", option, args)
		}
	}
}
