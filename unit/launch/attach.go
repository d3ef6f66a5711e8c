package launch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

// holdTerminal makes the terminal of a job and holds it. slave is the job's end,
// which stays the holder's. What is printed there goes through the pipe of the
// standard output where out is not nil, and nothing through the other one.
func holdTerminal(e *store.Entry, size unit.Window, out *pipes) (h *terminal.Holder, slave *os.File, err error) {
	pty, err := terminal.Open(terminal.Size(size))
	if err != nil {
		return nil, nil, err
	}
	dir, err := e.OpenDir()
	if err != nil {
		pty.Close()
		return nil, nil, err
	}
	defer dir.Close()
	var tee *os.File
	if out != nil {
		tee = out.out[1]
	}
	if h, err = terminal.Hold(pty, dir, tee); err != nil {
		pty.Close()
		return nil, nil, err
	}
	if out != nil {
		out.out[1] = nil // the holder's
	}
	return h, pty.Slave, nil
}

// TerminalError says that there is no terminal of a job to attach to.
type TerminalError struct {
	Name, Why, Way string
}

func (e *TerminalError) Error() string {
	return fmt.Sprintf("cannot attach to job %s: %s", e.Name, e.Why)
}

// Hint proposes the way out.
func (e *TerminalError) Hint() []string {
	if e.Way == "" {
		return nil
	}
	return []string{e.Way}
}

// asleep is true where the holder of the terminal cannot answer, since it is one
// of what is paused: a service's is in its unit.
func (j *Job) asleep() bool {
	return j.rec().Identity.Isolation == verify.IsolationService && j.frozen()
}

// Attach comes to the terminal of a job that was started with Spec.Window. The
// errors are *TerminalError, *unit.EndedError, *unit.IdentityError for a job of
// another host, boot or user, and *store.DirError.
func (j *Job) Attach(ctx context.Context, visit terminal.Visit) (*terminal.Remote, error) {
	ended := &unit.EndedError{Op: "attach to", Name: j.rec().Name}
	switch id := j.identity(); {
	case id.State == verify.IdentityForeign:
		return nil, &unit.IdentityError{Name: j.rec().Name, Detail: id.Detail}
	case !j.rec().Attachable:
		return nil, &TerminalError{j.rec().Name, "it has no terminal to come to", "unitward start --pty gives a job one"}
	case j.rec().Sealed != nil, id.State != verify.IdentitySame:
		return nil, ended
	}
	if j.asleep() {
		return nil, &TerminalError{j.rec().Name, "it is paused, and who holds its terminal with it", "let it go on first: unitward resume " + verify.Typed(j.rec().Name)}
	}
	dir, err := j.entry.OpenDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	r, err := terminal.Attach(dir, visit)
	var refused *terminal.RefusedError
	switch {
	case err == nil:
		return r, nil
	case errors.As(err, &refused):
		return nil, &TerminalError{j.rec().Name, refused.Why, ""}
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.EAGAIN):
		return nil, &TerminalError{j.rec().Name, "who holds its terminal does not answer", "unitward status " + verify.Typed(j.rec().Name) + " says what it does"}
	case !errors.Is(err, terminal.ErrNoHolder):
		return nil, &TerminalError{j.rec().Name, err.Error(), ""}
	}
	if rep, err := j.Look(ctx); err == nil && rep.Exit.Known {
		return nil, ended
	}
	return nil, &TerminalError{j.rec().Name, "who held its terminal has ended, and the job was hung up on", "unitward status " + verify.Typed(j.rec().Name) + " says what is left of it"}
}
