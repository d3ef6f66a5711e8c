package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hungFS is a FUSE file system that looks for every file for ever. A request
// that its server has read is waited for uninterruptibly, KILL or not
// (fs/fuse/dev.c, request_wait_answer).
type hungFS struct {
	t    testing.TB
	dir  string
	dev  *os.File
	asks chan uint64 // the look-ups that were read, by their number
	held []uint64
}

// Operations of include/uapi/linux/fuse.h.
const (
	fuseLookup      = 1
	fuseForget      = 2
	fuseInit        = 26
	fuseInterrupt   = 36
	fuseBatchForget = 42
)

func mountHung(t testing.TB) *hungFS {
	t.Helper()
	loadModule(t, "fuse")
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatalf("cannot open /dev/fuse: %v", err)
	}
	f := &hungFS{t: t, dir: t.TempDir(), asks: make(chan uint64, 16)}
	opts := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("hung", f.dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		unix.Close(fd)
		t.Fatalf("cannot mount: %v", err)
	}
	f.dev = os.NewFile(uintptr(fd), "/dev/fuse") // which polls, and that works only now
	t.Cleanup(func() {
		f.dev.Close() // ends every request
		if err := unix.Unmount(f.dir, unix.MNT_DETACH); err != nil {
			t.Errorf("cannot unmount: %v", err)
		}
	})
	go f.serve()
	return f
}

// file is one that nobody finds.
func (f *hungFS) file() string { return filepath.Join(f.dir, "hung") }

// await returns when a process sleeps in here.
func (f *hungFS) await() {
	f.t.Helper()
	select {
	case unique := <-f.asks:
		f.held = append(f.held, unique)
	case <-time.After(patience):
		f.t.Fatal("nobody looks for the file")
	}
}

// thaw answers all that hang.
func (f *hungFS) thaw() {
	f.t.Helper()
	for _, unique := range f.held {
		if err := f.answer(unique, unix.ENOENT, nil); err != nil {
			f.t.Errorf("cannot answer: %v", err)
		}
	}
	f.held = nil
}

func (f *hungFS) serve() {
	request := make([]byte, 1<<20)
	for {
		n, err := f.dev.Read(request)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINTR):
			continue // the request was taken back
		case err != nil || n < 40:
			return
		}
		unique := binary.NativeEndian.Uint64(request[8:])
		switch binary.NativeEndian.Uint32(request[4:]) {
		case fuseLookup:
			f.asks <- unique
		case fuseForget, fuseInterrupt, fuseBatchForget: // want no answer
		case fuseInit:
			init := make([]byte, 64)
			binary.NativeEndian.PutUint32(init[0:], 7)
			binary.NativeEndian.PutUint32(init[4:], 31)
			binary.NativeEndian.PutUint32(init[20:], 4096) // max_write
			_ = f.answer(unique, 0, init)
		default:
			_ = f.answer(unique, unix.ENOSYS, nil)
		}
	}
}

func (f *hungFS) answer(unique uint64, errno unix.Errno, body []byte) error {
	head := make([]byte, 16, 16+len(body))
	binary.NativeEndian.PutUint32(head[0:], uint32(16+len(body)))
	binary.NativeEndian.PutUint32(head[4:], uint32(-int32(errno)))
	binary.NativeEndian.PutUint64(head[8:], unique)
	_, err := f.dev.Write(append(head, body...))
	return err
}

// loadModule loads a module that the machine brings where the kernel does not
// have it built in.
func loadModule(t testing.TB, name string) {
	t.Helper()
	found, _ := filepath.Glob("/opt/rig/modules/" + name + ".ko*")
	if len(found) == 0 {
		return
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(found[0], ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && !errors.Is(err, unix.EEXIST) {
		t.Fatalf("cannot load %s: %v", found[0], err)
	}
}
