package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// lend mounts a directory of the host in a machine, where a directory is made
// for it. The mount is the machine's, and ends with it.
func (m *Machine) lend(dir, at string) error {
	if err := os.MkdirAll(m.path(at), 0o755); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("cannot lend %s to %s: %w", dir, m.Name, err)
	}
	defer unix.Close(tree)
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread, which is in the machine then, ends here
		done <- m.mount(tree, at)
	}()
	if err := <-done; err != nil {
		return fmt.Errorf("cannot lend %s to %s: %w", dir, m.Name, err)
	}
	return nil
}

// mount moves a mount to where the calling thread finds it in the machine.
func (m *Machine) mount(tree int, at string) error {
	ns, err := os.Open(filepath.Join("/proc", fmt.Sprint(m.Init), "ns/mnt"))
	if err != nil {
		return err
	}
	defer ns.Close()
	root, err := os.OpenFile(m.path("."), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := root.Chdir(); err != nil {
		return err
	}
	// Relative: where the driver runs in a chroot, the namespace's root is not
	// the machine's.
	return unix.MoveMount(tree, "", unix.AT_FDCWD, "."+at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}
