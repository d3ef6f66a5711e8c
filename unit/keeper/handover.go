package keeper

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
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
	Path []byte   `json:"path"`
	Argv [][]byte `json:"argv"`
	Env  [][]byte `json:"env"`
	// Dir is the working directory; empty is this process's.
	Dir     []byte        `json:"dir"`
	Umask   uint32        `json:"umask"`
	Rlimits []unit.Rlimit `json:"rlimits"`
	// Status is a FIFO: closed without a word once the command is executed,
	// else it gets the reason why it is not.
	Status string `json:"status"`

	// What follows is for one who tends the command, and does not become it.

	// JobDir is the job's directory.
	JobDir string `json:"job_dir,omitempty"`
	// Output is where the command's output goes: to the job's directory, when
	// it is empty or unit.OutputCapture, else to the streams of who tends it.
	Output unit.Output `json:"output,omitempty"`
	// OutputMax is the cap of each stream in bytes; OnOutputMax says what
	// happens at it.
	OutputMax   int64  `json:"output_max,omitempty"`
	OnOutputMax string `json:"on_output_max,omitempty"`
	// Window is the size of the terminal that the command gets; nil is none.
	Window    *unit.Window   `json:"window,omitempty"`
	Leftovers unit.Leftovers `json:"leftovers,omitempty"`
	Grace     time.Duration  `json:"grace_ns,omitempty"`
	// KillSignal is what an end begins with; 0 is SIGTERM.
	KillSignal int           `json:"kill_signal,omitempty"`
	Timeout    time.Duration `json:"timeout_ns,omitempty"`
}

// maxHandover bounds the file: arguments and environment together are at most
// 6 MiB on Linux (execve(2)), and base64 makes a third more of them.
const maxHandover = 16 << 20

// NewHandover takes from a Spec what belongs to the process itself, but for
// its environment, which is env.
func NewHandover(s *unit.Spec, env []string, status string) *Handover {
	return &Handover{
		Path: []byte(s.Path), Argv: slices(s.Command), Env: slices(env), Dir: []byte(s.Dir),
		Umask: s.Umask, Rlimits: append([]unit.Rlimit(nil), s.Rlimits[:]...), Status: status,
	}
}

// Command is the handover as a command for a reaper, which is given what this process
// was given for it.
func (h *Handover) Command() *Command {
	c := &Command{Path: string(h.Path), Argv: texts(h.Argv), Env: texts(h.Env), Dir: string(h.Dir), Umask: h.Umask, Rlimits: h.Rlimits}
	self := strconv.Itoa(os.Getpid())
	if n, err := strconv.ParseUint(os.Getenv("LISTEN_FDS"), 10, 16); err == nil && os.Getenv("LISTEN_PID") == self {
		c.Passed = int(n)
	}
	for _, kv := range h.granted() {
		switch name, value, _ := strings.Cut(kv, "="); {
		case (name == "LISTEN_PID" || name == "SYSTEMD_EXEC_PID") && value == self:
			c.OwnPID = append(c.OwnPID, name)
		case name == "LISTEN_PIDFDID": // this process's; it may be missing
		default:
			c.Env = append(c.Env, kv)
		}
	}
	return c
}

// grants are the variables by which systemd tells a service of what it was given
// by its properties, and of its unit (systemd.exec(5), "Environment Variables in Spawned Processes").
var grants = [...]string{
	"RUNTIME_DIRECTORY", "STATE_DIRECTORY", "CACHE_DIRECTORY", "LOGS_DIRECTORY", "CONFIGURATION_DIRECTORY", "CREDENTIALS_DIRECTORY",
	"INVOCATION_ID", "SYSTEMD_EXEC_PID", "JOURNAL_STREAM", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
	"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID",
}

// granted are those that this process was granted for the command, and that are not
// the job's own.
func (h *Handover) granted() []string {
	var out []string
	for _, name := range grants {
		value, given := os.LookupEnv(name)
		for _, kv := range h.Env {
			given = given && !bytes.HasPrefix(kv, []byte(name+"="))
		}
		if given {
			out = append(out, name+"="+value)
		}
	}
	return out
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
	if err := WritePrivate(file, b); err != nil {
		return fmt.Errorf("cannot write the handover: %w", err)
	}
	if err := unix.Mkfifo(h.Status, 0o600); err != nil {
		os.Remove(file)
		return fmt.Errorf("cannot write the handover: %w", err)
	}
	return nil
}

// Await listens at a handover's FIFO. It must be opened before the start.
type Await struct {
	f    *os.File
	path string
	said []byte
	// command is the process that was said to be the command.
	command unit.Process
}

// Listen opens the FIFO of a handover that was written.
func Listen(status string) (*Await, error) {
	f, err := os.OpenFile(status, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the handover: %w", err)
	}
	return &Await{f: f, path: status}, nil
}

// BecomeError says why Become, or the main process of a Reaper, did not become
// the command.
type BecomeError struct {
	// Op is what failed: chdir, setrlimit or exec; in a main process also
	// setsid, TIOCSCTTY, setpriority, setgroups, setgid or setuid.
	Op string
	// Errno is the kernel's answer.
	Errno syscall.Errno
}

func (e *BecomeError) Error() string {
	if e.Errno == 0 {
		return e.Op // which has the reason
	}
	return e.Op + ": " + e.Errno.Error()
}

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
			if a.hear() {
				return a.word()
			}
		case ended():
			// The last word may have come after the poll.
			a.hear()
			return a.word()
		}
	}
}

const awaitTick = 100 * time.Millisecond

// maxSaid bounds what is heard at the FIFO.
const maxSaid = 4096

// hear reads what was said. It is true when nothing more will be.
func (a *Await) hear() bool {
	b := make([]byte, maxSaid)
	for {
		n, err := unix.Read(int(a.f.Fd()), b)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false
		case err != nil || n == 0 || len(a.said)+n > maxSaid:
			return true
		}
		a.said = append(a.said, b[:n]...)
	}
}

// word is the failure that was told of, if one was.
func (a *Await) word() error {
	for line := range bytes.Lines(a.said) {
		var w word
		switch {
		case json.Unmarshal(line, &w) != nil:
			return nil
		case w.Op != "":
			return &BecomeError{w.Op, syscall.Errno(w.Errno)}
		case w.PID > 0:
			a.command = unit.Process{PID: w.PID, StartTime: w.StartTime}
		}
	}
	return nil
}

// Command is the command's process, where that is another than the one which
// took the handover; else zero. It is known once Executed has returned.
func (a *Await) Command() unit.Process { return a.command }

// Close removes the FIFO.
func (a *Await) Close() {
	a.f.Close()
	os.Remove(a.path)
}
