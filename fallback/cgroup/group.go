package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// maxFile bounds what is read of one file of a cgroup.
const maxFile = 1 << 20

// Group is one cgroup, recognised by its inode. It need not exist any more.
type Group struct {
	h *Hierarchy
	// Path is the cgroup below the cgroup root.
	Path string
	// Inode is the inode number of its directory.
	Inode uint64
}

// Lookup finds the cgroup now at path. The error is fs.ErrNotExist when there
// is none.
func (h *Hierarchy) Lookup(path string) (*Group, error) {
	dir, inode, err := h.open(path)
	if err != nil {
		return nil, err
	}
	unix.Close(dir)
	return &Group{h: h, Path: path, Inode: inode}, nil
}

// Recorded is the cgroup that a record names, whether it exists or not. An
// inode of 0 is not known.
func (h *Hierarchy) Recorded(path string, inode uint64) *Group {
	return &Group{h: h, Path: path, Inode: inode}
}

func (h *Hierarchy) open(path string) (fd int, inode uint64, err error) {
	p, err := h.path(path)
	if err != nil {
		return -1, 0, err
	}
	fd, err = unix.Open(p, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, 0, fmt.Errorf("cannot open the cgroup %s: %w", path, err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || !isCgroup2(fd) {
		unix.Close(fd)
		return -1, 0, fmt.Errorf("cannot use %s as a cgroup: not on a cgroup2 file system", p)
	}
	return fd, st.Ino, nil
}

// Glance is Read without the members of a populated cgroup.
func (g *Group) Glance() verify.Cgroup { return g.read(func() []verify.Member { return nil }) }

// Read looks at the cgroup once.
func (g *Group) Read() verify.Cgroup {
	return g.read(func() []verify.Member { return members(g.h, g.Path) })
}

func (g *Group) read(members func() []verify.Member) verify.Cgroup {
	c := verify.Cgroup{Path: g.Path}
	dir, inode, err := g.h.open(g.Path)
	switch {
	case errors.Is(err, unix.ENOENT):
		return g.gone()
	case err != nil:
		c.State, c.Err = verify.CgroupUnavailable, err.Error()
		return c
	}
	defer unix.Close(dir)
	switch g.Inode {
	case inode:
	case 0:
		// The job ended before its inode could be seen. What stands here now
		// may be another's.
		c.State, c.Err = verify.CgroupUnavailable, fmt.Sprintf("the inode of %s was not recorded", g.Path)
		return c
	default:
		c.State = verify.CgroupReplaced
		return c
	}
	populated, err := readPopulated(dir)
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENOENT):
		return g.gone() // removed between the open and the read
	case err != nil:
		c.State, c.Err = verify.CgroupUnavailable, fmt.Sprintf("cannot read cgroup.events of %s: %v", g.Path, err)
	case populated:
		c.State, c.Members = verify.CgroupPopulated, members()
	default:
		c.State = verify.CgroupEmpty
	}
	return c
}

// gone is the reading of a cgroup that is not there: it was removed, which an
// occupied one cannot be, if its parent is there to be seen.
func (g *Group) gone() verify.Cgroup {
	c := verify.Cgroup{Path: g.Path}
	for parent := filepath.Dir(g.Path); ; parent = filepath.Dir(parent) {
		dir, _, err := g.h.open(parent)
		if err == nil {
			unix.Close(dir)
			c.State = verify.CgroupGone
			return c
		}
		// A slice goes with its last unit, so the parent can be gone too.
		if !errors.Is(err, unix.ENOENT) || parent == "/" {
			c.State, c.Err = verify.CgroupUnavailable, fmt.Sprintf("cannot see the parent of %s: %v", g.Path, err)
			return c
		}
	}
}

func readPopulated(dir int) (bool, error) {
	b, err := readAt(dir, "cgroup.events")
	if err != nil {
		return false, err
	}
	return parsePopulated(b)
}

func parsePopulated(events string) (bool, error) { return parseEvent(events, "populated") }

// parseEvent takes one line of the content of cgroup.events (cgroup-v2.rst,
// "Core Interface Files").
func parseEvent(events, key string) (bool, error) {
	for line := range strings.Lines(events) {
		switch strings.TrimSuffix(line, "\n") {
		case key + " 0":
			return false, nil
		case key + " 1":
			return true, nil
		}
	}
	return false, fmt.Errorf("no %s line in %q", key, events)
}

func readAt(dir int, name string) (string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return readOn(fd)
}

// Kill sends SIGKILL to every member, whatever its user, by cgroup.kill
// (Linux 5.14). It fails with fs.ErrNotExist on older kernels and with
// unix.ESTALE when another cgroup stands at the path.
func (g *Group) Kill() error {
	dir, inode, err := g.h.open(g.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if inode != g.Inode {
		return fmt.Errorf("cannot kill %s: another cgroup stands there: %w", g.Path, unix.ESTALE)
	}
	fd, err := unix.Openat(dir, "cgroup.kill", unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot open cgroup.kill of %s: %w", g.Path, err)
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("1")); err != nil {
		return fmt.Errorf("cannot write cgroup.kill of %s: %w", g.Path, err)
	}
	return nil
}

// EventsPath is where the cgroup's cgroup.events is, which wakes poll(2) with
// POLLPRI at every change.
func (g *Group) EventsPath() (string, error) {
	p, err := g.h.path(g.Path)
	return filepath.Join(p, "cgroup.events"), err
}

// File reads one file of the cgroup, such as memory.max, without its final
// newline. It fails with fs.ErrNotExist when the controller is not enabled.
func (g *Group) File(name string) (string, error) {
	dir, inode, err := g.h.open(g.Path)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	if inode != g.Inode {
		return "", fmt.Errorf("cannot read %s of %s: another cgroup stands there: %w", name, g.Path, unix.ESTALE)
	}
	s, err := readAt(dir, name)
	if err != nil {
		return "", fmt.Errorf("cannot read %s of %s: %w", name, g.Path, err)
	}
	return strings.TrimSuffix(s, "\n"), nil
}
