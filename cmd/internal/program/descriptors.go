package program

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// needed is how many descriptors must be free: the runtime's own, of which it
// cannot say that they are missing but dies, and what a start takes.
const needed = 16

// Descriptors reports whether there are descriptors enough. The error is an
// *Error.
func Descriptors() error {
	var got []int
	var err error
	for range needed {
		var fd int
		if fd, err = unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 3); err != nil {
			break
		}
		got = append(got, fd)
	}
	for _, fd := range got {
		unix.Close(fd)
	}
	if err == nil {
		return nil
	}
	return &Error{fmt.Sprintf("cannot begin: %d descriptors are free and %d are needed: %v", len(got), needed, err), "raise the limit, such as with: ulimit -n 256"}
}
