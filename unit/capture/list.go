package capture

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"

	"golang.org/x/sys/unix"
)

// maxListed bounds what is believed of a directory; a capture has 18 files a
// stream at most.
const maxListed = 1024

// listTries bounds how often a directory is looked at for a moment of rest.
const listTries = 8

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
	// reached is the greatest offset in a name, also of a file that went away
	// before it could be looked at.
	reached int64
	// moving is true when what was seen is not of one moment.
	moving bool
}

func (l listing) empty() bool { return len(l.files) == 0 && l.end < 0 && !l.moving }

// size is how far the stream has come.
func (l listing) size() int64 {
	size := max(l.end, l.reached)
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

// list reads a directory, again when it changed meanwhile.
func list(dir int, s Stream) (l listing, err error) {
	var before []string
	for range listTries {
		names, split, err := namesOf(dir, s)
		if err != nil {
			return l, err
		}
		if l, err = stat(dir, s, names); err != nil {
			return l, err
		}
		// What was there before the second of two equal looks began is in it.
		if !l.moving && (!split || before != nil && slices.Equal(names, before)) {
			return l, nil
		}
		before = names
	}
	l.moving = true
	return l, nil
}

// stat looks at the files of a stream.
func stat(dir int, s Stream, names []string) (l listing, err error) {
	l.end = -1
	for _, name := range names {
		offset, end, _ := parseName(s, name)
		l.reached = max(l.reached, offset)
		var st unix.Stat_t
		if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, unix.ENOENT) {
			l.moving = true
			continue
		} else if err != nil {
			return l, os.NewSyscallError("stat", err)
		}
		if err := private(name, &st); err != nil {
			return l, err
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
	return l, nil
}

// namesOf are the sorted names of a directory's files of one stream. split says
// that they are not of one moment: they came by more than one call, as they do
// when a signal comes or the directory is large.
func namesOf(dir int, s Stream) (names []string, split bool, err error) {
	// A description of its own has a position of its own.
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false, os.NewSyscallError("openat", err)
	}
	defer unix.Close(fd)
	names = []string{}
	buf := make([]byte, 16<<10)
	for calls := 0; ; {
		n, err := unix.ReadDirent(fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, false, os.NewSyscallError("getdents64", err)
		}
		if n == 0 {
			slices.Sort(names)
			return names, calls > 1, nil
		}
		calls++
		_, _, all := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range all {
			if _, _, ok := parseName(s, name); !ok {
				continue
			}
			if names = append(names, name); len(names) > maxListed {
				return nil, false, fmt.Errorf("cannot read %s: the directory has more than %d files of it", s, maxListed)
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
