package proc

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// MaxEnviron is the most that Linux passes on as arguments and environment of
// a program, three quarters of 8 MiB (execve(2)).
const MaxEnviron = 6 << 20

// ErrUnknown says that an environment is not to be had just now: the process
// executes another program, or what was asked for may lie beyond the limit.
var ErrUnknown = errors.New("its environment is not to be had")

// Carries reports whether the environment that the process was started with
// holds the assignment NAME=VALUE, and how many bytes were read to find out,
// limit at most. s is its stat. A process can have changed what it was started
// with, so a no proves little.
//
// The errors are fs.ErrNotExist when the process is gone, fs.ErrPermission
// when it is another user's or not dumpable (ptrace(2), "Ptrace access mode
// checking"), and ErrUnknown.
func (p *Process) Carries(s Stat, assignment string, limit int) (found bool, n int, err error) {
	b, err := p.environ(s, limit+1)
	if err == nil && len(b) == 0 {
		// Between the end of one program and the next there is a moment
		// without any (fs/exec.c), in which the end's address is 0 as well.
		if s, err = p.Stat(); err == nil && s.EnvEnd != 0 {
			b, err = p.environ(s, limit+1)
		}
	}
	if err != nil {
		return false, 0, fmt.Errorf("cannot read the environment of process %d: %w", p.PID, err)
	}
	found = carries(b, assignment)
	if !found && (len(b) > limit || len(b) == 0 && s.EnvEnd == 0) {
		return false, len(b), fmt.Errorf("cannot read the environment of process %d: %w", p.PID, ErrUnknown)
	}
	return found, len(b), nil
}

func (p *Process) environ(s Stat, limit int) ([]byte, error) {
	if s.State == 'Z' && !s.Ended() {
		// The leading thread has given up its memory, the others have not.
		for _, tid := range p.threads() {
			if tid != p.PID {
				return p.read("task/"+strconv.Itoa(tid)+"/environ", limit)
			}
		}
	}
	return p.read("environ", limit)
}

// carries is true when one of the strings in an environment, each ended by a
// NUL or by its end, is the assignment.
func carries(environ []byte, assignment string) bool {
	want := []byte(assignment)
	for kv := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.Equal(kv, want) {
			return true
		}
	}
	return false
}
