package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

const containVerb = "_contain"

// contained is a command in a pid and a mount namespace of its own. What it
// starts and what it mounts is gone with it, however it ends: a bootstrap that
// is killed would otherwise leave the host's /dev and /sys mounted inside a
// directory that somebody then removes.
func contained(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append([]string{containVerb}, argv...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Setsid:     true,
		Pdeathsig:  unix.SIGKILL,
	}
	return cmd // cancelled by SIGKILL, which takes the whole namespace
}

// containMain is the first process of the namespaces, and runs the command.
func containMain(argv []string) int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		complain(fmt.Errorf("cannot make the mounts private: %w", err))
		return 125
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		complain(fmt.Errorf("cannot mount /proc: %w", err))
		return 125
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		complain(fmt.Errorf("cannot run %s: %w", argv[0], err))
		return 125
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	complain(fmt.Errorf("%s: %s", argv[0], cmd.ProcessState))
	return 125
}
