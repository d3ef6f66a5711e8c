package cgroup

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/verify"
)

// maxMembers bounds how many members are described; the list is for people and
// never evidence.
const maxMembers = 256

// members lists processes of the cgroup and of those below it.
func members(h *Hierarchy, path string) []verify.Member {
	top, err := h.path(path)
	if err != nil {
		return nil
	}
	var found []verify.Member
	var walk func(dir string)
	walk = func(dir string) {
		for _, pid := range procs(filepath.Join(dir, "cgroup.procs")) {
			if len(found) == maxMembers {
				return
			}
			if m, ok := proc.Describe(pid); ok {
				found = append(found, m)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.IsDir() && len(found) < maxMembers {
				walk(filepath.Join(dir, e.Name()))
			}
		}
	}
	walk(top)
	return found
}

func procs(file string) []int {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxFile))
	var pids []int
	for _, line := range strings.Fields(string(b)) {
		// 0 stands for a process of another pid namespace.
		if pid, err := strconv.Atoi(line); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}
