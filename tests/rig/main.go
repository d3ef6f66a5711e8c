// rig gives unitward's tests what a test machine rarely has: real systemd, of
// four versions, each as PID 1 of its own namespaces at native speed and, for
// the controllers and kernels that namespaces cannot give, in emulated
// machines. It also is the test driver behind the Makefile.
package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

const usage = `usage: go run ./tests/rig COMMAND

  build [SUITE...]               make (or reuse) the root file systems
  up SUITE [NAME]                boot SUITE's systemd; it stays up until "down"
  exec NAME [-u USER] -- CMD...  run a command inside
  down [NAME...]                 stop it and remove all it made; without NAME: what dead drivers left
  list                           the machines that are up
  vm [-add PATH]... SUITE SCRIPT [KERNEL-ARG...]
                                 boot SUITE in QEMU, run SCRIPT as root, exit with its status
  test [FLAGS]                   the tests that need systemd, in every suite ("test -h")
  all [FLAGS]                    everything that can run here: unit tests, rig, machines ("all -h")
  bench [FLAGS]                  ./tests/bench in every suite, side by side ("bench -h")

SUITE: bullseye (systemd 247), bookworm (252), trixie (257), sid (the newest).
State is kept in $UNITWARD_RIG_DIR (/var/tmp/unitward-rig); packages come from
$UNITWARD_RIG_MIRROR (http://deb.debian.org/debian).
`

// commands are the words a user can type; the ones with an underscore are how
// the rig enters itself again, and stand in main.
var commands = map[string]func(context.Context, []string) (int, error){
	"build": cmdBuild,
	"up":    cmdUp,
	"exec":  cmdExec,
	"down":  cmdDown,
	"list":  cmdList,
	"vm":    cmdVM,
	"test":  cmdTest,
	"all":   cmdAll,
	"bench": cmdBench,
}

// The main goroutine keeps the main thread: PR_SET_PDEATHSIG speaks of the
// thread that made the child, and no goroutine that enters other namespaces may
// ever be given the thread that lives as long as the process.
func init() { runtime.LockOSThread() }

func main() {
	args := os.Args[1:]
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	switch args[0] {
	case bootVerb:
		fail(boot(args[1:]))
	case containVerb:
		os.Exit(containMain(args[1:]))
	case enterVerb:
		os.Exit(enterMain(args[1:]))
	case guardVerb:
		fail(guardMain(args[1:]))
		return
	}
	// What this process was started with is not for its children.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	run := commands[args[0]]
	if run == nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	code, err := run(ctx, args[1:])
	if err != nil {
		complain(err)
		code = max(code, 1)
		var u usageError
		if errors.As(err, &u) {
			code = 2
		}
	}
	os.Exit(code)
}

// usageError is a command line that cannot be understood.
type usageError string

func (e usageError) Error() string { return string(e) }

func complain(err error) { fmt.Fprintln(os.Stderr, "rig:", err) }

func fail(err error) {
	if err != nil {
		complain(err)
		os.Exit(1)
	}
}
