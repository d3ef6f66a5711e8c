package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// Handover is everything that Become needs to become a job's command, for
// what systemd cannot carry: bytes that are not UTF-8, variables with names
// that it does not know, more than it takes in a line. It lies in a file of
// mode 0600 that Become removes before anything else.
type Handover struct {
	Path    []byte        `json:"path"`
	Argv    [][]byte      `json:"argv"`
	Env     [][]byte      `json:"env"`
	Dir     []byte        `json:"dir"`
	Umask   uint32        `json:"umask"`
	Rlimits []unit.Rlimit `json:"rlimits"`
	// Status is a FIFO: closed without a word once the command is executed,
	// else it gets the reason why it is not.
	Status string `json:"status"`
}

// maxHandover bounds the file: arguments and environment together are at most
// 6 MiB on Linux (execve(2)), and base64 makes a third more of them.
const maxHandover = 16 << 20

// NewHandover takes from a Spec what belongs to the process itself, but for
// its environment, which is env.
func NewHandover(s *unit.Spec, env []string, status string) *Handover {
	return &Handover{
		Path: []byte(s.Path), Argv: slices(s.Command), Env: slices(env), Dir: []byte(s.Dir),
		Umask: s.Umask, Rlimits: s.Rlimits[:], Status: status,
	}
}

func slices(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

// Write puts the handover into a new file of mode 0600 and makes its FIFO.
func (h *Handover) Write(file string) error {
	b, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("cannot encode the handover: %w", err)
	}
	if len(b) > maxHandover {
		return fmt.Errorf("cannot hand over %d bytes of arguments and environment: at most %d are possible", len(b), maxHandover)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("cannot write the handover: %w", err)
	}
	_, err = f.Write(b)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.Mkfifo(h.Status, 0o600)
	}
	if err != nil {
		os.Remove(file)
		return fmt.Errorf("cannot write the handover: %w", err)
	}
	return nil
}

// Await listens at a handover's FIFO. It must be opened before the start.
type Await struct {
	f    *os.File
	path string
}

// Listen opens the FIFO of a handover that was written.
func Listen(status string) (*Await, error) {
	f, err := os.OpenFile(status, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the handover: %w", err)
	}
	return &Await{f, status}, nil
}

// BecomeError says why Become, or the main process of a Reaper, did not become
// the command.
type BecomeError struct {
	// Op is what failed: chdir, setrlimit or exec; in a main process also
	// setsid, setpriority, setgroups, setgid or setuid.
	Op string
	// Errno is the kernel's answer.
	Errno syscall.Errno
}

func (e *BecomeError) Error() string { return e.Op + ": " + e.Errno.Error() }

func (e *BecomeError) Unwrap() error { return e.Errno }

// Executed waits until the command was executed, and returns nil, or until it
// is known why it was not: a *BecomeError. ended is asked now and then; once
// it is true, nobody will speak any more and Executed returns nil.
func (a *Await) Executed(ended func() bool) error {
	poll := []unix.PollFd{{Fd: int32(a.f.Fd()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(poll, int(awaitTick.Milliseconds()))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return fmt.Errorf("cannot await the handover: %w", err)
		case n > 0:
			// A FIFO nobody has opened for writing does not hang up: this is
			// a word or the end of one who was there.
			return a.word()
		case ended():
			// The last word may have come after the poll.
			if n, _ := unix.Poll(poll, 0); n > 0 {
				return a.word()
			}
			return nil
		}
	}
}

const awaitTick = 100 * time.Millisecond

func (a *Await) word() error {
	b, err := io.ReadAll(io.LimitReader(a.f, 4096))
	if err != nil && !errors.Is(err, syscall.EAGAIN) || len(b) == 0 {
		return nil
	}
	var w word
	if json.Unmarshal(b, &w) != nil {
		return nil
	}
	return &BecomeError{w.Op, syscall.Errno(w.Errno)}
}

type word struct {
	Op    string `json:"op"`
	Errno int    `json:"errno"`
}

// Close removes the FIFO.
func (a *Await) Close() {
	a.f.Close()
	os.Remove(a.path)
}
