package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Exit statuses of a Become that failed, those of a shell.
const (
	statusNoRun    = 125
	statusNoExec   = 126
	statusNotFound = 127
)

// Become takes over as the command of the handover in file. It returns only
// when it fails, with the status to exit with; the reason has then gone to
// the one who listens at the handover's FIFO.
func Become(file string) int {
	h, err := TakeHandover(file)
	if err != nil {
		fmt.Fprintf(os.Stderr, "unitward: cannot take over the job: %v\n", err)
		return statusNoRun
	}
	status := OpenStatus(h.Status)
	op, err := become(h)
	var errno syscall.Errno
	errors.As(err, &errno)
	return status.Failed(&BecomeError{op, errno})
}

func become(h *Handover) (op string, err error) {
	if len(h.Dir) > 0 {
		if err := unix.Chdir(string(h.Dir)); err != nil {
			return "chdir", err
		}
	}
	// Everything that allocates comes before the limits: a small RLIMIT_AS
	// leaves this runtime no memory to ask for.
	path, err := syscall.BytePtrFromString(string(h.Path))
	if err != nil {
		return "exec", err
	}
	argv, err := syscall.SlicePtrFromStrings(texts(h.Argv))
	if err != nil {
		return "exec", err
	}
	env, err := syscall.SlicePtrFromStrings(append(texts(h.Env), h.granted()...))
	if err != nil {
		return "exec", err
	}
	unix.Umask(int(h.Umask))
	for i, l := range h.Rlimits {
		if err := raise(i, syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return "setrlimit", err
		}
	}
	// Not syscall.Exec, which would give RLIMIT_NOFILE the value back that
	// this process was started with.
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE,
		uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&argv[0])), uintptr(unsafe.Pointer(&env[0])))
	return "exec", errno
}

// raise sets one limit, or the nearest that may be set where the hard limit
// of this process is lower, as systemd does for LimitXXX=.
func raise(resource int, want syscall.Rlimit) error {
	err := syscall.Setrlimit(resource, &want)
	if err != syscall.EPERM {
		return err
	}
	var have syscall.Rlimit
	if err := syscall.Getrlimit(resource, &have); err != nil {
		return err
	}
	want.Max = min(want.Max, have.Max)
	want.Cur = min(want.Cur, want.Max)
	return syscall.Setrlimit(resource, &want)
}

func texts(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

// Exec makes this process the command of the handover, without a word to
// anybody. It returns only when it fails, with a *BecomeError.
func (h *Handover) Exec() error {
	op, err := become(h)
	var errno syscall.Errno
	errors.As(err, &errno)
	return &BecomeError{op, errno}
}

// TakeHandover reads a handover and removes its file. It fails for one that is
// not a private file of this user.
func TakeHandover(file string) (*Handover, error) {
	b, err := ReadPrivate(file, true)
	if err != nil {
		return nil, err
	}
	var h Handover
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, err
	}
	if len(h.Path) == 0 || len(h.Argv) == 0 {
		return nil, errors.New("it names no command")
	}
	return &h, nil
}

// WritePrivate makes a file that only this user can read or write, and removes it
// where it cannot be written whole. It fails with fs.ErrExist when there is one.
func WritePrivate(file string, content []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(file)
	}
	return err
}

// ReadPrivate reads a file of at most 16 MiB that only this user can read or
// write, and removes it where it is taken. It follows no link, and fails for
// every other file.
func ReadPrivate(file string, take bool) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ok || int(st.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s is not a private file of this user", file)
	}
	if take {
		if err := os.Remove(file); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxHandover+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxHandover {
		return nil, fmt.Errorf("%s has more than %d bytes", file, maxHandover)
	}
	return b, nil
}
