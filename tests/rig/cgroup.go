package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a directory on the cgroup2 mount that the rig made.
type cgroup string

// child makes a cgroup below c, with its parents.
func (c cgroup) child(name string) (cgroup, error) {
	dir := filepath.Join(string(c), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot make a cgroup: %w", err)
	}
	return cgroup(dir), nil
}

// door opens cgroup.procs. A process that writes "0" to it joins, even after it
// has entered a cgroup namespace from which its old cgroup cannot be seen: what
// counts is who opened the file. (Joining and then executing is slower than
// CLONE_INTO_CGROUP, and works where a cgroup was ever killed.)
func (c cgroup) door() (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(string(c), "cgroup.procs"), os.O_WRONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open the machine's cgroup: %w", err)
	}
	return f, nil
}

// populated says whether a process lives in c or below it.
func (c cgroup) populated() (bool, error) {
	b, err := os.ReadFile(filepath.Join(string(c), "cgroup.events"))
	if err != nil {
		return false, err
	}
	return strings.Contains(string(b), "populated 1"), nil
}

// members are the processes in c and below it; 0 stands for one that lives in
// another pid namespace.
func (c cgroup) members() []int {
	var pids []int
	for _, dir := range c.tree() {
		b, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue
		}
		for _, f := range strings.Fields(string(b)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// tree lists c and all below it, parents first.
func (c cgroup) tree() []string {
	var dirs []string
	_ = filepath.WalkDir(string(c), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // what vanished meanwhile needs no care
	})
	return dirs
}

// kill ends every member. c is not used again afterwards.
func (c cgroup) kill() {
	if err := os.WriteFile(filepath.Join(string(c), "cgroup.kill"), []byte("1"), 0); err == nil {
		return
	}
	for _, pid := range c.members() { // before Linux 5.14
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			if c.holds(pid) { // else the pid is another process's by now
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			_ = unix.Close(fd)
		}
	}
}

func (c cgroup) holds(pid int) bool {
	mnt, err := cgroup2Mount()
	if err != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			full := filepath.Join(mnt, path)
			return full == string(c) || strings.HasPrefix(full, string(c)+"/")
		}
	}
	return false
}

// removalTries and removalPause bound how long a removal may take: rmdir can
// answer EBUSY for a while after the last process has gone.
const (
	removalTries = 400
	removalPause = 25 * time.Millisecond
)

// remove removes c and all below it, bottom-up. Success proves that no process
// was left.
func (c cgroup) remove() error {
	var last error
	for range removalTries {
		last = nil
		dirs := c.tree()
		for i := len(dirs) - 1; i >= 0; i-- {
			if err := unix.Rmdir(dirs[i]); err != nil && !errors.Is(err, unix.ENOENT) {
				last = fmt.Errorf("%s: %w", dirs[i], err)
			}
		}
		if _, err := os.Lstat(string(c)); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(removalPause)
	}
	return fmt.Errorf("cannot remove the cgroup %s (processes in it: %v): %w", c, c.members(), last)
}
