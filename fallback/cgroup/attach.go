package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// Attach finds the unit that an earlier process made in this place. It fails
// with fs.ErrNotExist when there is none, with *unit.IsolationError when the
// place cannot be seen, and with unix.ESTALE when another cgroup has the name.
// An inode of 0 takes whatever has the name: for a caller that knows no more.
func (p *Parent) Attach(name string, inode uint64) (*Unit, error) {
	name, err := DirName(name)
	if err != nil {
		return nil, err
	}
	return p.h.attach(path.Join(p.Path, name), inode)
}

// Attach finds the unit that a record names, as Parent.Attach does. An inode
// of 0 is refused with unix.ESTALE: nothing says that the cgroup is the job's.
func (h *Hierarchy) Attach(cgroup string, inode uint64) (*Unit, error) {
	if inode == 0 {
		return nil, fmt.Errorf("cannot use the cgroup %s: its inode was not recorded: %w", cgroup, unix.ESTALE)
	}
	return h.attach(cgroup, inode)
}

func (h *Hierarchy) attach(cgroup string, inode uint64) (*Unit, error) {
	if cgroup == h.root {
		return nil, fmt.Errorf("cannot use the cgroup %s as a unit: it is the top of the hierarchy", cgroup)
	}
	found, err := h.find(cgroup)
	if err != nil {
		return nil, err
	}
	defer unix.Close(found)
	var st unix.Stat_t
	if err := unix.Fstat(found, &st); err != nil {
		return nil, fmt.Errorf("cannot use the cgroup %s: %w", cgroup, err)
	}
	if inode != 0 && st.Ino != inode {
		return nil, fmt.Errorf("cannot use the cgroup %s: another cgroup stands there: %w", cgroup, unix.ESTALE)
	}
	up, name := path.Split(cgroup)
	up = path.Clean(up)
	u := &Unit{Path: cgroup, name: name, parent: &Parent{h: h, Path: up, base: up}}
	if path.Base(up) == ours {
		u.parent.base, u.parent.shared = path.Dir(up), true // tidy looks whether it is
	}
	holder, err := h.find(up)
	if err != nil {
		return nil, err
	}
	u.holder = os.NewFile(uintptr(holder), up)
	dir, err := reopen(found)
	if err == nil {
		err = u.take(dir)
	}
	switch {
	case err == nil:
		return u, nil
	case errors.Is(err, unix.ENODEV):
		err = fs.ErrNotExist // it was removed meanwhile
	}
	u.Close()
	return nil, fmt.Errorf("cannot open the cgroup %s: %w", cgroup, err)
}

// reopen opens for reading what was opened with O_PATH. A job may have taken
// the permission away.
func reopen(fd int) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	dir, err := unix.Openat(fd, ".", flags, 0)
	if !errors.Is(err, unix.EACCES) {
		return dir, err
	}
	link := fmt.Sprintf("/proc/self/fd/%d", fd)
	if unix.Chmod(link, 0o700) != nil {
		return -1, err
	}
	return unix.Open(link, flags, 0)
}
