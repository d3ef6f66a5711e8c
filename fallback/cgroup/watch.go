package cgroup

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Watch reports changes of a cgroup's cgroup.events, and its removal. A
// report is a wake-up, never a fact: Read says what is.
type Watch struct {
	// C receives after something changed. It is closed when nothing more can
	// be seen: the cgroup was removed, or Close was called.
	C <-chan struct{}

	inotify *os.File
}

// Watch begins to watch. It fails with fs.ErrNotExist when the cgroup is gone.
func (g *Group) Watch() (*Watch, error) {
	p, err := g.h.path(g.Path)
	if err != nil {
		return nil, err
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the cgroup %s: %w", g.Path, err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, filepath.Join(p, "cgroup.events"), unix.IN_MODIFY|unix.IN_DELETE_SELF); err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot watch the cgroup %s: %w", g.Path, err)
	}
	c := make(chan struct{}, 1)
	go func() {
		defer close(c)
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			if err != nil {
				return
			}
			select {
			case c <- struct{}{}:
			default: // one wake-up is pending already
			}
			if ignored(buf[:n]) {
				return
			}
		}
	}()
	return &Watch{C: c, inotify: f}, nil
}

// Close ends the watch.
func (w *Watch) Close() { w.inotify.Close() }

// ignored is true when the kernel ended the watch: the file is gone
// (inotify(7), IN_IGNORED).
func ignored(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask := uint32(events[4]) | uint32(events[5])<<8 | uint32(events[6])<<16 | uint32(events[7])<<24
		size := uint32(events[12]) | uint32(events[13])<<8 | uint32(events[14])<<16 | uint32(events[15])<<24
		if mask&unix.IN_IGNORED != 0 {
			return true
		}
		next := unix.SizeofInotifyEvent + int(size)
		if next > len(events) {
			break
		}
		events = events[next:]
	}
	return false
}
