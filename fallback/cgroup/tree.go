package cgroup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/verify"
)

// What a job makes in its unit is walked with bounds: one open directory for
// each level.
const (
	maxDepth  = 256
	maxGroups = 1 << 16
)

// tree walks a unit and all cgroups below it.
type tree struct {
	groups int
}

// errTooMany says that a job made more cgroups than are walked.
var errTooMany = errors.New("too many cgroups below it, or too deep")

// walk calls visit for dir and for what is below it, from the top down. What
// is removed meanwhile is passed over. What cannot be looked into hides
// nothing else: the first error is returned when all was visited.
func (t *tree) walk(dir, depth int, visit func(dir int) error) error {
	first := visit(dir)
	err := t.below(dir, depth, func(_ string, child int, err error) error {
		if err == nil {
			err = t.walk(child, depth+1, visit)
		}
		if first == nil {
			first = err
		}
		return nil
	})
	if first == nil {
		first = err
	}
	return first
}

// remove removes all cgroups below dir, the deepest first.
func (t *tree) remove(dir, depth int) error {
	return t.below(dir, depth, func(name string, child int, err error) error {
		if err != nil {
			return err
		}
		if err := t.remove(child, depth+1); err != nil {
			return err
		}
		if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	})
}

// below calls do for each cgroup one level below dir, open or with the error
// of opening it, until do fails.
func (t *tree) below(dir, depth int, do func(name string, child int, err error) error) error {
	names, err := children(dir)
	if err != nil {
		return err
	}
	if t.groups += len(names); t.groups > maxGroups || len(names) > 0 && depth == maxDepth {
		return errTooMany
	}
	for _, name := range names {
		child, err := openFile(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) {
			continue
		}
		failed := do(name, child, err)
		if err == nil {
			unix.Close(child)
		}
		if failed != nil {
			return failed
		}
	}
	return nil
}

// children lists the cgroups one level below dir; none when it was removed.
func children(dir int) ([]string, error) {
	fd, err := openFile(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "cgroup")
	defer f.Close()
	var names []string
	for {
		entries, err := f.ReadDir(256)
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		if len(names) > maxGroups {
			return nil, errTooMany
		}
		if errors.Is(err, io.EOF) || errors.Is(err, unix.ENOENT) {
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// pids lists the members of one cgroup without those below it. unseen counts
// those of other pid namespaces, which stand there as 0.
func pids(dir int) (found []int, unseen int, err error) {
	fd, err := openFile(dir, "cgroup.procs", unix.O_RDONLY)
	if err == nil {
		defer unix.Close(fd)
		var s string
		if s, err = rewind(fd); err == nil {
			found, unseen, err = parsePIDs(s)
		}
	}
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		// A threaded cgroup: its processes stand in the domain above it.
		return nil, 0, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
		return nil, 0, nil // it was removed
	}
	return found, unseen, err
}

// parsePIDs takes the content of cgroup.procs.
func parsePIDs(s string) (found []int, unseen int, err error) {
	for line := range strings.Lines(s) {
		pid, err := strconv.Atoi(strings.TrimSuffix(line, "\n"))
		switch {
		case err != nil || pid < 0:
			return nil, 0, fmt.Errorf("cannot read %q as a line of cgroup.procs", line)
		case pid == 0:
			unseen++
		default:
			found = append(found, pid)
		}
	}
	return found, unseen, nil
}

// rewind reads an open file from its beginning.
func rewind(fd int) (string, error) {
	if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
		return "", err
	}
	return readOn(fd)
}

// readOn reads an open file to its end.
func readOn(fd int) (string, error) {
	var s strings.Builder
	var buf [4096]byte
	for s.Len() < maxFile {
		n, err := unix.Read(fd, buf[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return "", err
		}
		if n == 0 {
			return s.String(), nil
		}
		s.Write(buf[:n])
	}
	// A line that is cut would be another number.
	whole := s.String()
	return whole[:strings.LastIndexByte(whole, '\n')+1], nil
}

// members describes those that can be seen, for people.
func (u *Unit) members() []verify.Member {
	var found []verify.Member
	_ = (&tree{}).walk(int(u.dir.Fd()), 0, func(dir int) error {
		p, _, err := pids(dir)
		for _, pid := range p {
			if len(found) == maxMembers {
				return errTooMany
			}
			same := func(m verify.Member) bool { return m.PID == pid }
			if m, ok := proc.Describe(pid); ok && !slices.ContainsFunc(found, same) {
				found = append(found, m)
			}
		}
		return err
	})
	return found
}
