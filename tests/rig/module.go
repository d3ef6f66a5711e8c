package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// enterModule makes the module's root the working directory. It returns a
// directory there for what the driver builds and for the logs, and what gives it
// back: where another driver has the usual one, this one takes its own.
func enterModule(ctx context.Context) (out string, leave func(), err error) {
	unix.Umask(0o022)
	mod, err := goOutput(ctx, "env", "GOMOD")
	if err != nil {
		return "", nil, err
	}
	if err := os.Chdir(filepath.Dir(strings.TrimSpace(mod))); err != nil {
		return "", nil, fmt.Errorf("cannot enter the module: %w", err)
	}
	out = filepath.Join("build", "rig")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", nil, fmt.Errorf("cannot make the directory for the logs: %w", err)
	}
	lock, err := os.OpenFile(out+".lock", os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return "", nil, fmt.Errorf("cannot lock the directory for the logs: %w", err)
	}
	if err := tryLock(lock); errors.Is(err, errLocked) {
		out = fmt.Sprintf("%s-%d", out, os.Getpid())
		note("another driver works in this module; the logs of this one go to %s", out)
	} else if err != nil {
		lock.Close()
		return "", nil, fmt.Errorf("cannot lock the directory for the logs: %w", err)
	}
	removeOldLogs("build/rig-")
	return out, func() { lock.Close() }, nil
}

// logsLive is how long the logs of a driver that took a directory of its own
// are kept.
const logsLive = time.Hour

// removeOldLogs removes such directories of drivers that are gone.
func removeOldLogs(prefix string) {
	dirs, _ := filepath.Glob(prefix + "[0-9]*")
	for _, dir := range dirs {
		st, err := os.Stat(dir)
		if err != nil || time.Since(st.ModTime()) < logsLive {
			continue
		}
		if _, err := os.Stat("/proc/" + strings.TrimPrefix(dir, prefix)); err == nil {
			continue
		}
		if err := removeTree(dir); err != nil {
			note("%s", err)
		}
	}
}
