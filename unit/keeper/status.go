package keeper

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Status is where one who takes a handover says what came of it. It is closed
// by an exec.
type Status struct{ fd int }

// OpenStatus opens a handover's FIFO. Nobody may be listening any more: then
// what is said is heard by nobody.
func OpenStatus(path string) *Status {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		fd = -1
	}
	return &Status{fd}
}

// Close says nothing more: without a word of failure the command runs.
func (s *Status) Close() {
	if s.fd >= 0 {
		unix.Close(s.fd)
		s.fd = -1
	}
}

// Runs says which process the command is, where it is not the one that took
// the handover.
func (s *Status) Runs(pid int) error {
	started, err := StartTime(pid)
	if err != nil {
		return err
	}
	s.say(word{PID: pid, StartTime: started})
	return nil
}

// Failed says why the command does not run, and returns the status to exit
// with.
func (s *Status) Failed(err error) int {
	var be *BecomeError
	if !errors.As(err, &be) {
		s.say(word{Op: fmt.Sprintf("take over (%v)", err)})
		return statusNoRun
	}
	s.say(word{Op: be.Op, Errno: int(be.Errno)})
	switch {
	case be.Op != "exec":
		return statusNoRun
	case be.Errno == unix.ENOENT, be.Errno == unix.ENOTDIR:
		return statusNotFound
	}
	return statusNoExec
}

// say writes one word to a line.
func (s *Status) say(w word) {
	if b, err := json.Marshal(w); err == nil && s.fd >= 0 {
		_, _ = unix.Write(s.fd, append(b, '\n')) // nobody may be listening any more
	}
}

// word is a line at a handover's FIFO.
type word struct {
	// Op and Errno say what failed; empty is nothing.
	Op    string `json:"op,omitempty"`
	Errno int    `json:"errno,omitempty"`
	// PID and StartTime are the command's process.
	PID       int    `json:"pid,omitempty"`
	StartTime uint64 `json:"start_time,omitempty"`
}
