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
// before their children. What is forked meanwhile can be missed, and what loses
// its parent where they end faster than they are listed, so an empty list proves
// nothing. A process that is gone has none. The error is that of reading /proc.
func Descendants(pid int) ([]Process, error) { return descendants(pid, childrenOf) }

// DescendantsBy lists, as Descendants does, those children of a process that are
// wanted, theirs, and so on.
func DescendantsBy(pid int, wanted func(child int) bool) ([]Process, error) {
	return descendants(pid, func(parent int) ([]int, error) {
		children, err := childrenOf(parent)
		if parent != pid {
			return children, err
		}
		var out []int
		for _, child := range children {
			if wanted(child) {
				out = append(out, child)
			}
		}
		return out, err
	})
}

// looks bounds how often the descendants are listed: a parent that ends
// meanwhile has given its children to one that may have been read before.
const looks = 8

func descendants(pid int, children func(pid int) ([]int, error)) ([]Process, error) {
	ended := map[Process]bool{}
	for n := 1; ; n++ {
		found, moved, err := look(pid, children, ended)
		if err != nil {
			return nil, fmt.Errorf("cannot list the descendants of process %d: %w", pid, err)
		}
		if !moved || n == looks {
			return found, nil
		}
	}
}

// look lists them once. moved is true where one has ended since the look began,
// whose children may have been missed. Those in ended, to which it adds, had ended
// before: nobody has waited for them yet.
func look(pid int, children func(pid int) ([]int, error), ended map[Process]bool) (found []Process, moved bool, err error) {
	seen := map[int]bool{pid: true}
	for todo := []Process{{PID: pid}}; len(todo) > 0; todo = todo[1:] {
		parent := todo[0]
		below, err := children(parent.PID)
		if err != nil {
			return nil, false, err
		}
		// The kernel gives a process's children away as it makes it a zombie.
		if parent.PID != pid && !ended[parent] {
			if p, err := readStat(parent.PID); err != nil || p.ended() {
				ended[parent], moved = true, true
			}
		}
		for _, child := range below {
			start, err := StartTime(child)
			if err != nil {
				moved = true
			}
			if err != nil || seen[child] {
				continue // gone meanwhile, or moved
			}
			seen[child] = true
			found = append(found, Process{child, start})
			todo = append(todo, Process{child, start})
		}
	}
	return found, moved, nil
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
		p, err := readStat(child)
		is := err == nil && p.parent == pid
		switch {
		case err == nil:
		case pid == os.Getpid():
			is = isChild(child)
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // gone meanwhile
		case errors.Is(err, fs.ErrPermission): // hidden (hidepid=), as most are there that are another user's
		default:
			return nil, err
		}
		if is {
			out = append(out, child)
		}
	}
	return out, nil
}

// stat is what /proc/PID/stat says of a process's place.
type stat struct {
	state           string
	parent, session int
}

// ended is true for a process that nobody has waited for.
func (s stat) ended() bool { return s.state == "Z" || s.state == "X" }

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
	return stat{fields[0], parent, session}, err
}
