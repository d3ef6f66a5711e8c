package serve_test

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/serve"
)

// roleVariable makes this program the server of a test; its value is the
// number of jobs that can be unsettled.
const roleVariable = "SERVE_TEST_RUNNING"

// holdVariable lets the server of a test meet what chance seldom meets: see
// Server.Hold.
const holdVariable = "SERVE_TEST_HOLD"

// TestMain lets this program be what a unit executes, and the server.
func TestMain(m *testing.M) {
	if status, entered, _ := launch.Enter(os.Args); entered {
		os.Exit(status)
	}
	if running := os.Getenv(roleVariable); running != "" {
		os.Exit(server(running))
	}
	os.Exit(m.Run())
}

func server(running string) int {
	caller := keeper.ReadCaller()
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	self, err := os.Executable()
	if err != nil {
		return 1
	}
	l, err := launch.New(launch.Config{StateDir: os.Getenv("UNITWARD_STATE_DIR"), Getenv: os.Getenv, UID: os.Geteuid(), Self: self})
	if err != nil {
		return 1
	}
	defer l.Close()
	n := 0
	for _, c := range running {
		n = n*10 + int(c-'0')
	}
	os.Unsetenv(roleVariable)
	hold := os.Getenv(holdVariable)
	os.Unsetenv(holdVariable)
	srv := serve.New(serve.Config{Launcher: l, Caller: caller, Environ: os.Environ(), Version: "test", MaxRunning: n})
	srv.Hold(hold)
	ended := srv.Serve(ctx, os.Stdin, os.Stdout)
	if !ended.Confirmed {
		return 123
	}
	return 0
}

// stateDir is a state directory of the test.
func stateDir(t testing.TB) string { return filepath.Join(t.TempDir(), "state") }
