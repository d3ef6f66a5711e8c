package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// foreign says why a cgroup called ours is none of unitward's. It fails with
// unix.ENOENT when it has been removed.
func foreign(fd, uid int) (why string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if int(st.Uid) != uid || st.Mode != unix.S_IFDIR|0o700 {
		return fmt.Sprintf("it belongs to uid %d and has the mode %#o", st.Uid, st.Mode&0o7777), nil
	}
	kind, err := readAt(fd, "cgroup.type")
	procs := ""
	if err == nil && kind == "domain\n" {
		procs, err = readAt(fd, "cgroup.procs")
	}
	switch {
	case errors.Is(err, unix.ENODEV):
		return "", unix.ENOENT
	case err != nil:
		return "", err
	case procs != "":
		return "it has processes of its own", nil
	}
	return notDomain(kind, nil), nil
}

// holder is the cgroup that holds the units, left open from the second unit on: to
// find and to judge it takes as long as to make a cgroup in it.
type holder struct {
	mu   sync.Mutex
	used bool
	dir  *os.File
	// units are how many of this process's are in it.
	units int
}

// Close lets go of what is open for further units. Those that are there, and any
// that are made later, are as good as before.
func (p *Parent) Close() {
	if h := p.holder; h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.dir.Close() // of a nil file too
		h.dir, h.used = nil, false
	}
}

// count counts the unit among this process's, or no more, once; it may be in a
// place that counts none.
func (u *Unit) count(in bool) {
	h := u.parent.holder
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case in && !u.counted:
		h.units++
	case !in && u.counted:
		h.units--
	}
	u.counted = in
}

// units are how many of this process's there are.
func (p *Parent) units() int {
	if p.holder == nil {
		return 0
	}
	p.holder.mu.Lock()
	defer p.holder.mu.Unlock()
	return p.holder.units
}

// open opens the cgroup that holds the units, and makes it where it is ours. It
// can have been removed since: Close has the next open look anew.
func (p *Parent) open() (fd int, err error) {
	h := p.holder
	if h == nil {
		return p.find()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dir == nil {
		fd, err := p.find()
		if err != nil || !h.used {
			h.used = true
			return fd, err
		}
		h.dir = os.NewFile(uintptr(fd), p.Path)
	}
	return unix.FcntlInt(h.dir.Fd(), unix.F_DUPFD_CLOEXEC, 3)
}

func (p *Parent) find() (fd int, err error) {
	base, _, err := p.h.beneath(p.base)
	if err != nil || !p.shared {
		return base, err
	}
	defer unix.Close(base)
	if err := mkdir(base, ours); err != nil && !errors.Is(err, fs.ErrExist) {
		return -1, err
	}
	fd, err = unix.Openat(base, ours, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	why, err := foreign(fd, os.Geteuid())
	if why != "" {
		err = p.unusable("it is not ours: " + why)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mkdir makes a directory of mode 0700, whatever the umask.
func mkdir(dir int, name string) error {
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil && st.Mode&0o7777 != 0o700 {
		err = unix.Fchmodat(dir, name, 0o700, 0)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return err
}

// tidy removes the cgroup that holds the units where it is ours and holds none.
func (p *Parent) tidy() {
	if !p.shared {
		return
	}
	base, _, err := p.h.beneath(p.base)
	if err != nil {
		return
	}
	defer unix.Close(base)
	child, err := unix.Openat(base, ours, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(child)
	if why, err := foreign(child, os.Geteuid()); why == "" && err == nil {
		sweep(child)
		_ = unix.Unlinkat(base, ours, unix.AT_REMOVEDIR) // refused while it holds one
	}
}

// fewUnits is how many cgroups may stand beside one that is removed for that to
// be the time to tidy. Of many, one of the last does it: each would have to list
// all others.
const fewUnits = 8

// swept tidies the open cgroup that holds the units, after one was removed: what
// killed keepers left goes, and then it itself where it is ours and holds none.
func (p *Parent) swept(holder int) {
	beside, err := subdirectories(holder)
	if err == nil && (beside > fewUnits || beside > 0 && beside <= p.units()) {
		return // to another one, or to a later one of this process: there is nothing else
	}
	if beside > 0 {
		sweep(holder)
		if beside, err = subdirectories(holder); err == nil && beside > 0 {
			return
		}
	}
	p.tidy()
}

// subdirectories counts the cgroups below an open one: kernfs counts each as a
// link, beside the name and the dot (kernfs_refresh_inode).
func subdirectories(fd int) (int, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return int(st.Nlink) - 2, nil
}
