//go:build !docs

// unitward starts jobs as systemd transient units and proves when a job, all
// of it, has ended.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/store"
)

func main() {
	// One thing happens after another here. More processors would only have
	// threads look for work, which costs a twentieth of a short job.
	runtime.GOMAXPROCS(1)
	os.Exit(enter(os.Args))
}

// enter tells what a unit executes from what a user types, before anything of
// the command line is set up.
func enter(args []string) int {
	if len(args) == 3 && !asShell(args[0]) {
		switch args[1] {
		case launch.BecomeVerb:
			return keeper.Become(args[2])
		case launch.TendVerb:
			return launch.Tend(args[2], os.Getenv)
		case launch.KeepVerb:
			keeper.ReadCaller()
			self, err := os.Executable()
			if err == nil {
				err = launch.RunKeeper(args[2], self, os.Geteuid())
			}
			if err != nil {
				return 1 // it was told to the one who could say it
			}
			return 0
		case launch.FireVerb:
			return fire(args[2])
		case launch.RecordVerb:
			keeper.ReadCaller() // the mask it is started with is the job's
			if err := store.RecordExit(args[2], os.Getenv, launch.Ended, time.Now()); err != nil {
				fmt.Fprintln(os.Stderr, "unitward:", err)
				return 1
			}
			return 0
		}
	}
	s := streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	if err := descriptors(); err != nil {
		return fail(err, false, s)
	}
	if asShell(args[0]) {
		return execute(append([]string{"shell"}, args[1:]...), s)
	}
	return execute(args[1:], s)
}
