package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Watch tells of changes of a job's output. Make it before the output is read:
// then nothing is missed. Close it.
type Watch struct {
	f *os.File
}

// NewWatch watches the job's directory, which the caller may close then. It
// fails where /proc is not mounted, and when the user has no watches left
// (inotify(7)).
func NewWatch(dir *os.File) (*Watch, error) {
	d, err := duplicate(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the output: %w", err)
	}
	defer unix.Close(d)
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot watch the output: %w", os.NewSyscallError("inotify_init1", err))
	}
	// The path leads to the very directory that is open, whatever its name.
	_, err = unix.InotifyAddWatch(fd, fmt.Sprintf("/proc/self/fd/%d", d),
		unix.IN_MODIFY|unix.IN_ATTRIB|unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_TO|unix.IN_MOVE_SELF|unix.IN_DELETE_SELF|unix.IN_ONLYDIR)
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot watch the output: %w", os.NewSyscallError("inotify_add_watch", err))
	}
	return &Watch{os.NewFile(uintptr(fd), "inotify")}, nil
}

// Close releases the watch. A Wait that goes on ends with fs.ErrClosed.
func (w *Watch) Close() error { return w.f.Close() }

// Wait blocks until files of the output have changed since the last Wait, or
// since NewWatch. It fails with the error of ctx when that is done first, and
// with fs.ErrNotExist when the directory was moved or removed: the job was
// released. One Wait at a time.
func (w *Watch) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.f.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("cannot watch the output: %w", fs.ErrClosed) // there is no other reason
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		_ = w.f.SetReadDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() {
			<-done // a later Wait is not to meet this one's deadline
		}
	}()
	var buf [16 << 10]byte // many events at once, of any length of name
	for {
		n, err := w.f.Read(buf[:])
		if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("cannot watch the output: %w", err)
		}
		if changed, gone := events(buf[:n]); gone {
			return fmt.Errorf("cannot watch the output: the job's directory was removed: %w", fs.ErrNotExist)
		} else if changed {
			return nil
		}
	}
}

// events reads what inotify(7) told: whether the output changed, and whether
// the directory is gone.
func events(b []byte) (changed, gone bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(b[4:])
		size := int(binary.NativeEndian.Uint32(b[12:]))
		b = b[unix.SizeofInotifyEvent:]
		if size < 0 || size > len(b) {
			break
		}
		name := strings.TrimRight(string(b[:size]), "\x00")
		b = b[size:]
		if mask&(unix.IN_MOVE_SELF|unix.IN_DELETE_SELF|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0 {
			gone = true
		}
		if mask&unix.IN_Q_OVERFLOW != 0 || ours(name) {
			changed = true
		}
	}
	return changed, gone
}

// ours is true for the name of a file of either stream.
func ours(name string) bool {
	_, _, out := parseName(Stdout, name)
	_, _, err := parseName(Stderr, name)
	return out || err
}
