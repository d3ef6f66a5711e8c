//go:build docs

package main

import (
	"fmt"
	"os"

	"github.com/unitward/unitward/packaging/manual"
	"github.com/unitward/unitward/unit/keeper"
)

// This main stands in for the other, and writes the manual: see manual.Main.
func main() {
	if err := manual.Main(command(streams{}, keeper.Caller{}), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "unitward-mcp:", err)
		os.Exit(1)
	}
}
