//go:build docs

package main

import (
	"fmt"
	"os"

	"github.com/unitward/unitward/packaging/manual"
)

// This main stands in for the other, and writes the manual and the completions:
// see manual.Main.
func main() {
	if err := manual.Main((&app{}).root(nil), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "unitward:", err)
		os.Exit(1)
	}
}
