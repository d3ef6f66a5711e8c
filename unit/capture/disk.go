package capture

import (
	"errors"

	"golang.org/x/sys/unix"
)

// disk is what a shelf does to the directory.
type disk interface {
	// create makes a file that was not there, for writing.
	create(name string) (fd int, err error)
	rename(from, to string) error
	// remove removes a file; one that is not there is no error.
	remove(name string) error
}

// directory is the real one, by its descriptor.
type directory int

func (d directory) create(name string) (int, error) {
	fd, err := d.exclusive(name)
	if errors.Is(err, unix.EEXIST) {
		// Not ours: nobody else makes files here, and no offset comes twice.
		if err := d.remove(name); err != nil {
			return -1, err
		}
		fd, err = d.exclusive(name)
	}
	if err != nil {
		return -1, err
	}
	// The umask may have taken away what a reader needs.
	if err := unix.Fchmod(fd, 0o600); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (d directory) exclusive(name string) (fd int, err error) {
	// O_EXCL does not follow a link (open(2)). O_APPEND would keep splice(2) away.
	for {
		fd, err = unix.Openat(int(d), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func (d directory) rename(from, to string) error {
	return unix.Renameat(int(d), from, int(d), to)
}

func (d directory) remove(name string) error {
	if err := unix.Unlinkat(int(d), name, 0); !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}
