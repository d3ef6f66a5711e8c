package serve

import (
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

// openOutput opens a file that a job will write to. A fifo or a socket, at
// which an open can wait for ever, is refused.
func openOutput(path string, appended bool, mode uint32) (*os.File, error) {
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	if appended {
		flags |= unix.O_APPEND
	}
	fd, err := unix.Open(path, flags, mode)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	kind := st.Mode & unix.S_IFMT
	switch {
	case err != nil:
	case kind != unix.S_IFREG && kind != unix.S_IFCHR:
		err = unix.EINVAL
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
