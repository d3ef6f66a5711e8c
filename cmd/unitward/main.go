//go:build !docs

// unitward starts jobs as systemd transient units and proves when a job, all
// of it, has ended.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/unitward/unitward/cmd/internal/program"
	"github.com/unitward/unitward/unit/launch"
)

func main() {
	// One thing happens after another here. More processors would only have
	// threads look for work, which costs a twentieth of a short job.
	runtime.GOMAXPROCS(1)
	deepen()
	os.Exit(enter(os.Args))
}

// enter tells what a unit executes from what a user types, before anything of
// the command line is set up.
func enter(args []string) int {
	if !asShell(args[0]) {
		if len(args) == 3 && args[1] == launch.FireVerb {
			return fire(args[2]) // it is a command line
		}
		if status, entered, err := launch.Enter(args); entered {
			if err != nil {
				fmt.Fprintln(os.Stderr, "unitward:", err)
			}
			return status
		}
	}
	s := streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if err := program.Descriptors(); err != nil {
		return fail(err, false, s)
	}
	if asShell(args[0]) {
		return execute(append([]string{"shell"}, args[1:]...), s)
	}
	return execute(args[1:], s)
}
