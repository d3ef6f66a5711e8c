package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// cgroupMount is where the rig has cgroup v2, and nearly everybody.
const cgroupMount = "/sys/fs/cgroup"

// ownCgroup is the directory of the cgroup that this process is in.
func ownCgroup() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			return filepath.Join(cgroupMount, path), nil
		}
	}
	return "", errors.New("cannot find this process's cgroup: there is none of cgroup v2")
}

// cloneInto makes a cgroup and starts a program in it.
func cloneInto(dir string, argv ...string) (*os.Process, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	cgroup, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer cgroup.Close()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Files: []*os.File{nil, nil, nil},
		Sys:   &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(cgroup.Fd())},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start %s in %s: %w", argv[0], dir, err)
	}
	return p, nil
}
