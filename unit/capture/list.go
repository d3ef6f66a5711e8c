package capture

import (
	"fmt"
	"os"
	"sort"

	"golang.org/x/sys/unix"
)

// maxListed bounds what is believed of a directory; a capture has 18 files a
// stream at most.
const maxListed = 1024

// RefusedError says that a file with the name of one of a capture is none.
type RefusedError struct {
	// Name is the file's name in the job's directory.
	Name   string
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("cannot believe the output file %q: %s", e.Name, e.Reason)
}

// file is one with bytes of a stream; the first of them is byte start.
type file struct {
	name        string
	start, size int64
}

// listing is what a directory has of one stream, by offset.
type listing struct {
	files []file
	// end is where the stream was closed; -1: it was not.
	end int64
}

func (l listing) empty() bool { return len(l.files) == 0 && l.end < 0 }

// size is how far the stream has come.
func (l listing) size() int64 {
	size := max(l.end, 0)
	for _, f := range l.files {
		size = max(size, f.start+f.size)
	}
	return size
}

// before is the index of the last file that begins at or before an offset; -1
// is none.
func (l listing) before(offset int64) int {
	return sort.Search(len(l.files), func(i int) bool { return l.files[i].start > offset }) - 1
}

// list reads a directory. When files go while it looks it looks again, so that
// the newest is among them.
func list(dir int, s Stream) (l listing, err error) {
	for range 16 {
		var moving bool
		if l, moving, err = listOnce(dir, s); err != nil || !moving {
			return l, err
		}
	}
	return l, nil
}

// listOnce also says whether a file went away.
func listOnce(dir int, s Stream) (l listing, moving bool, err error) {
	l.end = -1
	names, err := namesOf(dir, s)
	if err != nil {
		return l, false, err
	}
	for _, name := range names {
		offset, end, _ := parseName(s, name)
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
			moving = true
			continue
		} else if err != nil {
			return l, false, os.NewSyscallError("stat", err)
		}
		if err := private(name, &st); err != nil {
			return l, false, err
		}
		if end {
			l.end = max(l.end, offset)
			continue
		}
		l.files = append(l.files, file{name, offset, st.Size})
	}
	sort.Slice(l.files, func(i, j int) bool {
		a, b := l.files[i], l.files[j]
		return a.start < b.start || a.start == b.start && a.name < b.name // a head without a byte comes first
	})
	return l, moving, nil
}

// namesOf are the names of a directory's files of one stream. They come from
// one call where the directory is no larger than usual, which makes them those
// of one moment.
func namesOf(dir int, s Stream) ([]string, error) {
	// A description of its own has a position of its own.
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("openat", err)
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("getdents64", err)
		}
		if n == 0 {
			return names, nil
		}
		_, _, all := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range all {
			if _, _, ok := parseName(s, name); !ok {
				continue
			}
			if names = append(names, name); len(names) > maxListed {
				return nil, fmt.Errorf("cannot read %s: the directory has more than %d files of it", s, maxListed)
			}
		}
	}
}

// private checks that a file is one that a capture of this user made.
func private(name string, st *unix.Stat_t) error {
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return &RefusedError{name, "it is not a regular file"}
	case int(st.Uid) != os.Geteuid():
		return &RefusedError{name, fmt.Sprintf("it belongs to uid %d, not %d", st.Uid, os.Geteuid())}
	case st.Mode&0o077 != 0:
		return &RefusedError{name, fmt.Sprintf("its mode is %04o: others can reach it", st.Mode&0o7777)}
	}
	return nil
}
