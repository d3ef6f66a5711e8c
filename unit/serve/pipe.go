package serve

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// newPipe makes a pipe. Only our end does not block: the flag is of the end,
// and the job is to get one as a shell would make it. ours is 0 for the end to
// read from and 1 for the other.
func newPipe(ours int) (own int, jobs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	if err := unix.SetNonblock(fds[ours], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return -1, nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	return fds[ours], os.NewFile(uintptr(fds[1-ours]), "pipe"), nil
}

// fileTypeError says that a job's output cannot go to a file of this type
// (inode(7)).
type fileTypeError struct{ kind uint32 }

func (e *fileTypeError) Error() string {
	switch e.kind {
	case unix.S_IFIFO:
		return "it is a FIFO"
	case unix.S_IFSOCK:
		return "it is a socket"
	case unix.S_IFBLK:
		return "it is a block device"
	}
	return fmt.Sprintf("it is a file of type %#o", e.kind)
}

// Hint proposes the way out.
func (e *fileTypeError) Hint() []string { return []string{"name a regular file"} }

// openOutput opens a file that a job will write to. A FIFO or a socket, at
// which an open can wait for ever, is refused.
func openOutput(path string, appended bool, mode uint32) (*os.File, error) {
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	if appended {
		flags |= unix.O_APPEND
	}
	fd, err := unix.Open(path, flags, mode)
	var st unix.Stat_t
	if errors.Is(err, unix.ENXIO) && unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFCHR {
		err = &fileTypeError{st.Mode & unix.S_IFMT} // nobody reads, or it is a socket
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	err = unix.Fstat(fd, &st)
	kind := st.Mode & unix.S_IFMT
	switch {
	case err != nil:
	case kind != unix.S_IFREG && kind != unix.S_IFCHR:
		err = &fileTypeError{kind}
	case kind == unix.S_IFREG && !appended:
		err = unix.Ftruncate(fd, 0)
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	if err != nil {
		unix.Close(fd)
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
