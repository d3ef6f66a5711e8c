package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

const sigKill = int(unix.SIGKILL)

// Exit statuses of a start that failed.
const (
	statusNoRun    = 125
	statusNoExec   = 126
	statusNotFound = 127
)

// versionHandoff is the first systemd that tells when the command was
// executed and whose start job cannot fail after that (systemd 256, NEWS).
const versionHandoff = 256

// Exit statuses that systemd itself gives to a process which it could not
// turn into the command (systemd.exec(5), "Process Exit Codes").
const (
	firstSystemdStatus = 200
	lastSystemdStatus  = 245
	statusChdir        = 200
	statusFDs          = 202
	statusExec         = 203
)

// doubtful is true for a systemd whose start job can be "done" although the
// command was not executed: Type=exec takes the end of its pipe for success,
// and before systemd 256 that can also be a failed process's end. An unknown
// version, 0, is taken for a newer one.
func doubtful(version int) bool { return version != 0 && version < versionHandoff }

// neverRan tells a command that systemd could not execute from one that ended
// at once. The result of the start job alone does not: before systemd 256 a
// very fast exit makes it "failed" too.
func neverRan(s *unit.Spec, name, result string, r dbusclient.Reading) error {
	result = untold(result, r)
	if !r.Read || result == "" || result == "done" && !doubtful(r.ManagerVersion) {
		return nil
	}
	if result == "dependency" {
		return &unit.StartError{Unit: name, Status: statusNoRun, Detail: dependency(s)}
	}
	unseen := result == "failed" && r.LoadState == "not-found" && r.InvocationID == ""
	if unseen && r.ManagerVersion < versionHandoff {
		return nil // it has come and gone, and may have run
	}
	if r.ExecMainCode == 0 && r.MainPID == 0 && result != "done" {
		e := &unit.StartError{Unit: name, Status: statusNoRun,
			Detail: fmt.Sprintf("the start job ended as %q with result %q and nothing was executed", result, r.Result)}
		switch {
		case unseen:
			e.Detail = "it ended before the command was executed, and the manager has forgotten how"
			e.Hints = []string{"what systemd says of it: " + journalOf(s.Manager, name)}
		case result == "timeout":
			e.Hints = []string{"it took longer than the start job may: see JobTimeoutSec= and JobRunningTimeoutSec= among -p"}
		case result == "assert":
			e.Hints = []string{"an Assert…= among -p does not hold: see systemd.unit(5)"}
		case len(assigned(s, "ExecStartPre")) > 0:
			e.Hints = []string{"a command of ExecStartPre= goes before and has to succeed; what it wrote: " + journalOf(s.Manager, name)}
		}
		return e
	}
	code := int(r.ExecMainStatus)
	if r.ExecMainCode != 1 || code < firstSystemdStatus || code > lastSystemdStatus {
		return nil
	}
	if r.ManagerVersion >= versionHandoff {
		if !r.HandoffAt.IsZero() {
			return nil
		}
	} else if !explains(s, code) {
		// The status can be the program's own. We found the file executable
		// and asked for nothing that could fail, so it is.
		return nil
	}
	if err := enterable(s.Dir); err != nil && code == statusChdir {
		return cannotEnter(s, name, err)
	}
	e := &unit.StartError{Unit: name, Step: stepName(code), Status: statusNoRun, Detail: fmt.Sprintf("systemd gave the status %d", code)}
	cause, hint := causeOf(s, code)
	if cause != "" {
		e.Detail += ": " + cause
		e.Hints = []string{hint}
	}
	if code == statusFDs || cause == "" && code != statusExec {
		e.Hints = append(e.Hints, "what systemd says of it: "+journalOf(s.Manager, name))
	}
	if code == statusExec {
		e.Status = statusNoExec
		if err := executable(s.Path); err != nil {
			e.Detail = err.Error()
			e.Status = execStatus(err)
		}
	}
	return e
}

// untold is a start job's result, also where nobody was told of it and the unit itself
// says that it failed; empty where it does not.
func untold(result string, r dbusclient.Reading) string {
	if result == "" && r.LoadState == "loaded" && (r.ActiveState == "inactive" || r.ActiveState == "failed") {
		return "failed"
	}
	return result
}

// dependency says what a start job that ended as "dependency" lacked. A user
// manager cannot move a process out of a session's cgroup by itself: it asks
// the system manager, over the system bus.
func dependency(s *unit.Spec) string {
	if s.Lifetime == unit.LifetimeDetached {
		return "a unit that it depends on did not start"
	}
	return "the manager could not take the process that watches over the lifetime into its scope, or another unit that it depends on did not start; " +
		"a user manager needs the system bus for that (systemctl --user daemon-reexec connects it anew), and --lifetime detached needs no such process"
}

// explains reports whether what was asked for can make systemd fail with the
// status, below systemd 256.
func explains(s *unit.Spec, code int) bool {
	return refusable(s) || code == statusExec && executable(s.Path) != nil || code == statusChdir && enterable(s.Dir) != nil
}

// enterable reports why chdir(2) to a directory would fail, as far as that can
// be seen beforehand: nil, or an error that is the errno.
func enterable(dir string) error {
	if dir == "" {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.X_OK, unix.AT_EACCESS)
}

// mayEnter fails with a *unit.StartError when the job could not enter its
// directory, as far as that follows from what this process may do: the job is
// of the same user, and sees the same files.
func mayEnter(s *unit.Spec, name string) error {
	if s.Apart() {
		return nil
	}
	for _, p := range s.Properties {
		if name, _, _ := strings.Cut(p, "="); property.Executes(name) {
			return nil // it may go elsewhere, or see other files
		}
	}
	if err := enterable(s.Dir); err != nil {
		return cannotEnter(s, name, err)
	}
	return nil
}

func cannotEnter(s *unit.Spec, name string, err error) error {
	return &unit.StartError{Unit: name, Step: stepName(statusChdir), Status: statusNoRun, Detail: s.Dir + ": " + err.Error()}
}

// refusable reports whether something was asked for that can keep systemd from
// executing the command.
func refusable(s *unit.Spec) bool {
	return s.Apart() || slices.ContainsFunc(s.Properties, func(p string) bool {
		name, _, _ := strings.Cut(p, "=")
		return property.Executes(name)
	})
}

func stepName(code int) string {
	names := map[int]string{
		200: "CHDIR", 201: "NICE", 202: "FDS", 203: "EXEC", 204: "MEMORY", 205: "LIMITS", 206: "OOM_ADJUST",
		207: "SIGNAL_MASK", 208: "STDIN", 209: "STDOUT", 210: "CHROOT", 211: "IOPRIO", 212: "TIMERSLACK",
		213: "SECUREBITS", 214: "SETSCHEDULER", 215: "CPUAFFINITY", 216: "GROUP", 217: "USER", 218: "CAPABILITIES",
		219: "CGROUP", 220: "SETSID", 221: "CONFIRM", 222: "STDERR", 224: "PAM", 225: "NETWORK", 226: "NAMESPACE",
		227: "NO_NEW_PRIVILEGES", 228: "SECCOMP", 229: "SELINUX_CONTEXT", 230: "PERSONALITY", 231: "APPARMOR_PROFILE",
		232: "ADDRESS_FAMILIES", 233: "RUNTIME_DIRECTORY", 235: "CHOWN", 236: "SMACK_PROCESS_LABEL", 237: "KEYRING",
		238: "STATE_DIRECTORY", 239: "CACHE_DIRECTORY", 240: "LOGS_DIRECTORY", 241: "CONFIGURATION_DIRECTORY",
		242: "NUMA_POLICY", 243: "CREDENTIALS", 245: "BPF",
	}
	return names[code]
}

// untaken is the error of a handover that nobody took.
func untaken(name string) error {
	return &unit.StartError{Unit: name, Step: "handover", Status: statusNoRun,
		Detail: "what was handed over to the job's process was not found by it: a property hides the files of unitward from the job, such as InaccessiblePaths= or a user's ProtectHome=yes, or ends the process first, such as SystemCallFilter=",
		Hints:  []string{"ProtectHome=tmpfs and TemporaryFileSystem= hide the rest, and leave these in place", "a SystemCallFilter= has to allow @system-service"}}
}

// becomeFailed is the error of a handover that did not become the command.
func becomeFailed(name string, s *unit.Spec, err error) error {
	e := &unit.StartError{Unit: name, Status: statusNoRun, Detail: err.Error()}
	if errors.Is(err, unix.EMFILE) {
		e.Hints = []string{unit.HintDescriptors}
	}
	var be *keeper.BecomeError
	if errors.As(err, &be) && be.Errno != 0 {
		e.Step, e.Detail = be.Op, be.Errno.Error()
		switch be.Op {
		case "exec":
			e.Detail = s.Path + ": " + be.Errno.Error()
			e.Status = execStatus(be.Errno)
		case "chdir":
			e.Detail = s.Dir + ": " + be.Errno.Error()
		case "setpriority":
			e.Hints = []string{"a lower nice level than the caller's needs RLIMIT_NICE, or root"}
		case "setuid", "setgid", "setgroups":
			e.Hints = []string{"only root can run a job as another user or group"}
		}
	}
	return e
}

// execStatus is what a shell exits with when execve fails.
func execStatus(err error) int {
	var errno syscall.Errno
	if errors.As(err, &errno) && (errno == unix.ENOENT || errno == unix.ENOTDIR) {
		return statusNotFound
	}
	return statusNoExec
}
