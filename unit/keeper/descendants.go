package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Process is a process that cannot be taken for a later one of its number.
type Process struct {
	PID int
	// StartTime is StartTime's.
	StartTime uint64
}

// Descendants lists the children of a process, theirs, and so on, parents
// before their children. It is one look: what forks or loses its parent
// meanwhile can be missed, so an empty list proves nothing. A process that is
// gone has none. The error is that of reading /proc.
func Descendants(pid int) ([]Process, error) {
	var out []Process
	seen := map[int]bool{pid: true}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		children, err := childrenOf(todo[0])
		if err != nil {
			return nil, fmt.Errorf("cannot list the descendants of process %d: %w", pid, err)
		}
		for _, child := range children {
			start, err := StartTime(child)
			if err != nil || seen[child] {
				continue // gone meanwhile, or moved
			}
			seen[child] = true
			out = append(out, Process{child, start})
			todo = append(todo, child)
		}
	}
	return out, nil
}

// Children lists the children of a process alone, as Descendants does.
func Children(pid int) ([]Process, error) {
	children, err := childrenOf(pid)
	if err != nil {
		return nil, fmt.Errorf("cannot list the children of process %d: %w", pid, err)
	}
	var out []Process
	for _, child := range children {
		if start, err := StartTime(child); err == nil { // else it is gone
			out = append(out, Process{child, start})
		}
	}
	return out, nil
}

// Signal sends a signal to the process, and never to a later one of its
// number. The error is unix.ESRCH when it is gone, and unix.EPERM when it is
// another user's.
func (p Process) Signal(sig unix.Signal) error { return p.send(sig, nil) }

// childrenOf lists the children of all threads of a process.
func childrenOf(pid int) ([]int, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var out []int
	for _, t := range threads {
		b, err := os.ReadFile(dir + "/" + t.Name() + "/children")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if _, err := os.Stat("/proc/thread-self/children"); err != nil {
				return childrenByParent(pid)
			}
			continue // the thread is gone
		case errors.Is(err, unix.ESRCH):
			continue
		case err != nil:
			return nil, err
		}
		for word := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(word); err == nil {
				out = append(out, child)
			}
		}
	}
	return out, nil
}

// childrenByParent finds them where the kernel has no list
// (CONFIG_PROC_CHILDREN).
func childrenByParent(pid int) ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		child, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := readStat(child); err == nil && p.parent == pid {
			out = append(out, child)
		}
	}
	return out, nil
}

// stat is what /proc/PID/stat says of a process's place.
type stat struct{ parent, session int }

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	// See parseStartTime.
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) < 4 {
		return stat{}, fmt.Errorf("cannot read %q", b)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return stat{}, err
	}
	session, err := strconv.Atoi(fields[3])
	return stat{parent, session}, err
}
