package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// maxFiles bounds how many descriptors of one process are looked at.
const maxFiles = 1024

// Holds reports whether a process has one of the files open. The error is that of
// looking, after which nothing is known; fs.ErrNotExist when it is gone.
func (p *Process) Holds(files []unit.File) (bool, error) {
	fd, err := unix.Openat(p.fd, "fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, gone(err)
	}
	dir := os.NewFile(uintptr(fd), "fd")
	defer dir.Close()
	names, err := dir.Readdirnames(maxFiles)
	if err != nil && len(names) == 0 {
		// None, or none any more: a process that has ended has no descriptors.
		return false, nil
	}
	if len(names) == maxFiles {
		return false, fmt.Errorf("cannot look at all files of process %d: there are %d or more", p.PID, maxFiles)
	}
	for _, name := range names {
		var st unix.Stat_t
		if unix.Fstatat(fd, name, &st, 0) != nil {
			continue // it was closed meanwhile
		}
		for _, f := range files {
			if f.Device == st.Dev && f.Inode == st.Ino {
				return true, nil
			}
		}
	}
	return false, nil
}
