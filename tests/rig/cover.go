package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mergeCoverage writes what the unit tests and the rig covered together, and
// prints the total.
func mergeCoverage(ctx context.Context, out string) error {
	dirs, err := filepath.Glob(filepath.Join(out, "cover", "*"))
	if err != nil || len(dirs) == 0 {
		return err
	}
	const profile = "build/coverage.txt"
	if err := goTool(ctx, "tool", "covdata", "textfmt", "-i="+strings.Join(dirs, ","), "-o="+profile); err != nil {
		return fmt.Errorf("cannot merge the coverage: %w", err)
	}
	sums, err := goOutput(ctx, "tool", "cover", "-func="+profile)
	if err != nil {
		return fmt.Errorf("cannot sum up the coverage: %w", err)
	}
	total := strings.Join(strings.Fields(lastLines(sums, 1)), " ")
	fmt.Fprintf(os.Stdout, "coverage in %s: %s\n", profile, total)
	return nil
}
