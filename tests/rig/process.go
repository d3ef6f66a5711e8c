package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// note tells what takes a while.
func note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "rig: "+format+"\n", args...)
}

// pause sleeps, or returns early with why the context ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// runQuietly runs a command and shows what it printed only when it failed. An
// interrupted command gets the time to remove what it made.
func runQuietly(cmd *exec.Cmd) error {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if cmd.SysProcAttr == nil {
		endTogether(cmd)
	}
	cmd.WaitDelay = 20 * time.Second
	if err := tiedToThread(cmd.Run); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.TrimPrefix(cmd.Args[0], "/proc/self/"), err, lastLines(out.String(), 30))
	}
	return nil
}

// endTogether has an interruption of a command reach what it has started, too.
func endTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// tiedToThread calls f on a thread that lasts as long as the call: Pdeathsig
// speaks of the thread that made the child.
func tiedToThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// self is this program, also for a child that sees other file systems.
func self() (*os.File, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("cannot open this program: %w", err)
	}
	return f, nil
}
