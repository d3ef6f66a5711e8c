package capture

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// readTries bounds how often a read looks again because what it was to read
// went away.
const readTries = 32

// errGone says that a file was removed before it could be read.
var errGone = errors.New("it was removed")

// Reader reads one stream, also while it is being captured. Between calls it
// holds no file of the stream open, so that what is removed gives its space
// free. Close it. It is for one goroutine at a time.
type Reader struct {
	dir    int
	stream Stream
	seen   listing
}

// Open opens a stream in the job's directory, which the caller may close then.
// The error matches fs.ErrNotExist when nothing of the stream was captured, and
// is a *RefusedError where a file of it is not what a capture makes.
func Open(dir *os.File, s Stream) (*Reader, error) {
	d, err := duplicate(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", s, err)
	}
	r := &Reader{dir: d, stream: s}
	err = r.look()
	if err == nil && r.seen.empty() {
		err = &fs.PathError{Op: "open", Path: string(s), Err: fs.ErrNotExist}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Close releases the reader.
func (r *Reader) Close() error { return unix.Close(r.dir) }

// Stream is which one it reads.
func (r *Reader) Stream() Stream { return r.stream }

func (r *Reader) look() error {
	l, err := list(r.dir, r.stream)
	if err == nil {
		l.reached = max(l.reached, r.seen.size()) // a stream never shrinks
		r.seen = l
	}
	return err
}

// Size is how many bytes the stream has had until now, kept or not. closed is
// true when there will be no more. A capture that was killed never says so.
func (r *Reader) Size() (size int64, closed bool, err error) {
	if err := r.look(); err != nil {
		return 0, false, err
	}
	return r.seen.size(), r.seen.end >= 0, nil
}

// Kept is how many bytes of the stream are on disk, as Size last saw them: the
// rest of it was dropped.
func (r *Reader) Kept() int64 {
	var n int64
	for _, f := range r.seen.files {
		n += f.size
	}
	return n
}

// ReadAt reads from byte offset of the stream into p, and returns how many
// bytes it read and the offset of the first of them: bytes from offset to from
// were dropped. It may read fewer than there are. Without any it returns
// io.EOF, and the end of the stream as from; more may come then, unless the
// stream is closed. A place behind the end is a *CursorError. Other errors are
// those of the disk, and a *RefusedError.
func (r *Reader) ReadAt(p []byte, offset int64) (n int, from int64, err error) {
	if offset < 0 {
		return 0, offset, &CursorError{r.stream, offset, 0}
	}
	from = offset
	fresh := false
	for try := 0; try < readTries; {
		i := r.seen.before(from)
		gone := false
		if i >= 0 {
			f := r.seen.files[i]
			n, err := r.read(f.name, p, from-f.start)
			if gone = errors.Is(err, errGone); err != nil && !gone {
				return 0, from, err
			}
			if n > 0 || len(p) == 0 && !gone && from < f.start+f.size {
				return n, from, nil
			}
		}
		switch {
		case !gone && i+1 < len(r.seen.files):
			// The next file was there before this one was read: nothing more
			// will come to this one.
			from = r.seen.files[i+1].start
			continue
		case !gone && fresh && !r.seen.moving:
			end := r.seen.size()
			if offset > end {
				return 0, offset, &CursorError{r.stream, offset, end}
			}
			return 0, max(from, end), io.EOF
		}
		if err := r.look(); err != nil {
			return 0, from, err
		}
		fresh = true
		try++
	}
	// It is written faster than it can be found: what was there is gone.
	return 0, max(from, r.seen.size()), io.EOF
}

// read reads from one file.
func (r *Reader) read(name string, p []byte, at int64) (int, error) {
	// O_NONBLOCK does not wait for the writer of a fifo.
	fd, err := unix.Openat(r.dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
	case unix.ENOENT:
		return 0, errGone
	case unix.EINTR:
		return r.read(name, p, at)
	case unix.ELOOP, unix.ENXIO:
		return 0, &RefusedError{name, "it is not a regular file"}
	default:
		return 0, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if err := private(name, &st); err != nil {
		return 0, err
	}
	for {
		n, err := unix.Pread(fd, p, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		return n, nil
	}
}
