package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Unit is a raw unit: a cgroup of ours. What is needed later is open from the
// beginning, since a job of our own uid can change the modes of the files of
// its own unit. It may be used by several goroutines, but for Close.
type Unit struct {
	// Path is the cgroup below the cgroup root, and Inode the inode number of
	// its directory: what a record needs.
	Path  string
	Inode uint64

	parent  *Parent
	name    string   // of the directory
	holder  *os.File // the directory that holds it
	dir     *os.File
	procs   *os.File // nil when it may not be written
	events  *os.File
	kill    *os.File // nil before Linux 5.14
	freezer *os.File // nil before Linux 5.2

	mu      sync.Mutex // for the offset of procs and events
	counted bool       // under the holder's lock
}

// ExistsError says that a unit's cgroup cannot be made since there is one of
// that name, which was left alone. It matches fs.ErrExist.
type ExistsError struct {
	// Path is the cgroup below the cgroup root.
	Path string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("cannot make the cgroup %s: it exists", e.Path)
}

// Is makes it match fs.ErrExist.
func (e *ExistsError) Is(target error) bool { return target == fs.ErrExist }

// Hint proposes the way out.
func (e *ExistsError) Hint() []string {
	return []string{"take another name with -u; a cgroup that this call did not make is never removed"}
}

// tries bounds how often a place is made again that somebody else tidies up.
const tries = 32

// Create makes the cgroup of a unit, with the mode 0700 and nothing in it.
// Whatever the error, what it made is removed. The error is *ExistsError when
// there is one of that name, and *unit.IsolationError when none can be made.
func (p *Parent) Create(name string) (*Unit, error) {
	name, err := DirName(name)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		u, err := p.create(name)
		if err == nil {
			u.count(true)
			return u, nil
		}
		p.Close()
		p.tidy()
		// Another call can remove the place when its last unit goes, and so
		// can systemd what it finds empty.
		gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV)
		if gone && p.shared && try < tries {
			continue
		}
		var exists *ExistsError
		var typed *unit.IsolationError
		if !errors.As(err, &exists) && !errors.As(err, &typed) {
			err = p.unusable(fmt.Sprintf("cannot make the cgroup %s in it: %v", name, err))
		}
		return nil, err
	}
}

// Vacant is where the cgroup of a unit would be made, below the cgroup root.
// The error is *ExistsError when there is one of that name already. It makes
// nothing.
func (p *Parent) Vacant(name string) (string, error) {
	name, err := DirName(name)
	if err != nil {
		return "", err
	}
	at := path.Join(p.Path, name)
	file, err := p.h.path(at)
	if err != nil {
		return "", p.unusable(err.Error())
	}
	var st unix.Stat_t
	if err := unix.Lstat(file, &st); err == nil {
		return "", &ExistsError{Path: at}
	}
	return at, nil
}

func (p *Parent) create(name string) (_ *Unit, err error) {
	holder, err := p.open()
	if err != nil {
		return nil, err
	}
	u := &Unit{parent: p, name: name, Path: path.Join(p.Path, name), holder: os.NewFile(uintptr(holder), p.Path)}
	made := false
	defer func() {
		if err != nil && made {
			_ = unix.Unlinkat(holder, name, unix.AT_REMOVEDIR)
		}
		if err != nil {
			u.Close()
		}
	}()
	if err := mkdir(holder, name); errors.Is(err, fs.ErrExist) {
		return nil, &ExistsError{Path: u.Path}
	} else if err != nil {
		return nil, err
	}
	made = true
	dir, err := unix.Openat(holder, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := u.take(dir); err != nil {
		return nil, err
	}
	if u.procs == nil {
		return nil, p.unusable("cgroup.procs of a cgroup that was made in it is not for us to write")
	}
	if why := notDomain(readAt(dir, "cgroup.type")); why != "" {
		return nil, p.unusable("of a cgroup that was made in it: " + why)
	}
	return u, nil
}

// take opens the files of the unit in the open directory, which it owns.
func (u *Unit) take(dir int) error {
	u.dir = os.NewFile(uintptr(dir), u.Path)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	u.Inode = st.Ino
	var err error
	if u.events, err = u.file("cgroup.events", unix.O_RDONLY); err != nil {
		return err
	}
	for _, f := range []struct {
		to   **os.File
		name string
		mode int
	}{
		{&u.procs, "cgroup.procs", unix.O_RDWR},
		{&u.kill, "cgroup.kill", unix.O_WRONLY},
		{&u.freezer, "cgroup.freeze", unix.O_RDWR},
	} {
		*f.to, err = u.file(f.name, f.mode)
		// An older kernel has none; another's may not be ours to write.
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

func (u *Unit) file(name string, flags int) (*os.File, error) {
	fd, err := openFile(int(u.dir.Fd()), name, flags)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s of %s: %w", name, u.Path, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Close closes the unit's files and changes nothing else.
func (u *Unit) Close() {
	u.count(false)
	for _, f := range []*os.File{u.holder, u.dir, u.procs, u.events, u.kill, u.freezer} {
		f.Close() // of a nil file too
	}
}

// Dir is the open directory of the unit, for CLONE_INTO_CGROUP. It stays the
// unit's.
func (u *Unit) Dir() *os.File { return u.dir }

// Procs is the unit's open cgroup.procs: a process that writes "0" to it joins
// the unit. It is nil in a unit that was attached and is not ours to write. It
// stays the unit's.
func (u *Unit) Procs() *os.File { return u.procs }

// Holder is the open directory that has the unit's, and the name there. It
// stays the unit's.
func (u *Unit) Holder() (*os.File, string) { return u.holder, u.name }

// Group is the unit as one that is only read, by its path.
func (u *Unit) Group() *Group { return &Group{h: u.parent.h, Path: u.Path, Inode: u.Inode} }

// Read looks at the unit once, by what is open: nothing that a job does to its
// own unit can hide a member.
func (u *Unit) Read() verify.Cgroup {
	c := verify.Cgroup{Path: u.Path}
	populated, err := u.event("populated")
	switch {
	case errors.Is(err, unix.ENODEV):
		c.State = verify.CgroupGone // it was removed: an occupied one cannot be
	case err != nil:
		c.State, c.Err = verify.CgroupUnavailable, fmt.Sprintf("cannot read cgroup.events of %s: %v", u.Path, err)
	case populated:
		c.State, c.Members = verify.CgroupPopulated, u.members()
	default:
		c.State = verify.CgroupEmpty
	}
	return c
}

// KillFile is the unit's open cgroup.kill, which ends every member when "1" is
// written to it; nil before Linux 5.14. It stays the unit's.
func (u *Unit) KillFile() *os.File { return u.kill }

// event reads one line of cgroup.events. It fails with unix.ENODEV when the
// cgroup was removed.
func (u *Unit) event(key string) (bool, error) {
	b, err := u.held(u.events)
	if err != nil {
		return false, err
	}
	return parseEvent(b, key)
}

// held reads a file that is open from its beginning.
func (u *Unit) held(f *os.File) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return rewind(int(f.Fd()))
}
