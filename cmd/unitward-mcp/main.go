//go:build !docs

// unitward-mcp offers jobs to agents as tools of the Model Context Protocol.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/unitward/unitward/unit/launch"
)

func main() {
	runtime.GOMAXPROCS(1) // as long as it only stays with a job
	os.Exit(enter(os.Args))
}

// enter tells what a unit executes from what a user calls.
func enter(args []string) int {
	if status, entered, err := launch.Enter(args); entered {
		if err != nil {
			fmt.Fprintln(os.Stderr, "unitward-mcp:", err)
		}
		return status
	}
	return execute(args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
}
