package program

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// stayGCPercent keeps small what stays for as long as its client does: most of
// it is of jobs that wait (debug.SetGCPercent).
const stayGCPercent = 50

// stayFloor is counted as heap and never touched, so that it takes no memory: the
// heap of a few jobs, of which each leaves a hundred KiB behind, is collected when
// there are 4 MiB of that, not one.
const stayFloor = 8 << 20

// Stay prepares the process for a client that it serves until one of them ends.
// The context is done when the process is asked to end by TERM, INT or HUP; the
// caller calls end when it is over.
func Stay() (ctx context.Context, end func()) {
	// Many things happen at once here, unlike in every other verb.
	runtime.SetDefaultGOMAXPROCS()
	debug.SetGCPercent(stayGCPercent)
	floor := make([]byte, stayFloor)
	// Whose reader is gone gets an error, not a signal; what is executed gets
	// the signal as it was.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	return ctx, func() {
		stop()
		signal.Stop(broken)
		runtime.KeepAlive(floor)
	}
}
