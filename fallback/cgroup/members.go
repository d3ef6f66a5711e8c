package cgroup

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/unitward/unitward/verify"
)

const (
	// maxMembers bounds how many members are described; the list is for
	// people and never evidence.
	maxMembers = 256
	maxCommand = 256
)

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
			if m, ok := describe(pid); ok {
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

// describe says what a process is; ok is false when it has gone.
func describe(pid int) (m verify.Member, ok bool) {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	stat, err := os.ReadFile(dir + "stat")
	if err != nil {
		return m, false
	}
	comm, state, ok := parseStat(string(stat))
	if !ok || state == "Z" || state == "X" {
		return m, false // a zombie is no member: nothing of it can run
	}
	m = verify.Member{PID: pid, State: state, Command: commandLine(dir + "cmdline")}
	if m.Command == "" {
		m.Command = "[" + comm + "]"
	}
	if state == "D" {
		wchan, _ := os.ReadFile(dir + "wchan")
		m.Wchan = strings.Trim(string(wchan), "0")
	}
	return m, true
}

// parseStat takes comm and state from proc_pid_stat(5). The command's name
// can hold anything, so its end is the last parenthesis.
func parseStat(stat string) (comm, state string, ok bool) {
	from, to := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if from < 0 || to < from {
		return "", "", false
	}
	rest := strings.Fields(stat[to+1:])
	if len(rest) == 0 {
		return "", "", false
	}
	return stat[from+1 : to], rest[0], true
}

func commandLine(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, maxCommand)
	n, _ := io.ReadFull(f, buf)
	return string(bytes.ToValidUTF8(bytes.ReplaceAll(bytes.TrimRight(buf[:n], "\x00"), []byte{0}, []byte{' '}), []byte("?")))
}
