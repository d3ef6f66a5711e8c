package unit

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

// Manager names the systemd manager that holds a job's unit.
type Manager string

const (
	// ManagerUser is the caller's own user manager.
	ManagerUser Manager = "user"
	// ManagerSystem is PID 1.
	ManagerSystem Manager = "system"
)

// Leftovers says what happens to processes that are left when the main
// process has ended.
type Leftovers string

const (
	// LeftoversKill ends them: TERM, the grace, KILL.
	LeftoversKill Leftovers = "kill"
	// LeftoversWait waits for them; the job ends with the last of them.
	LeftoversWait Leftovers = "wait"
	// LeftoversKeep leaves them in the unit and reports them.
	LeftoversKeep Leftovers = "keep"
)

// Lifetime says what ends a job that does not end by itself.
type Lifetime string

const (
	// LifetimeCall ends the job with the call that started it.
	LifetimeCall Lifetime = "call"
	// LifetimeOwner ends it with the process Spec.OwnerPID, or with
	// Spec.OwnerUnit.
	LifetimeOwner Lifetime = "owner"
	// LifetimeDetached lets it go on.
	LifetimeDetached Lifetime = "detached"
)

// Input says where a job's standard input comes from.
type Input string

const (
	// InputNull is /dev/null.
	InputNull Input = "null"
	// InputInherit is the caller's own.
	InputInherit Input = "inherit"
)

// Output says where a job's standard output and error go.
type Output string

const (
	// OutputInherit is the caller's own.
	OutputInherit Output = "inherit"
	// OutputJournal is the journal.
	OutputJournal Output = "journal"
	// OutputCapture is files in the job's directory, within a cap.
	OutputCapture Output = "capture"
	// OutputNull is /dev/null.
	OutputNull Output = "null"
)

// OnOutputMax says what happens to a job that writes more than it may.
type OnOutputMax string

const (
	// OnOutputMaxTruncate keeps the head and the newest tail, and goes on.
	OnOutputMaxTruncate OnOutputMax = "truncate"
	// OnOutputMaxStop ends the job.
	OnOutputMaxStop OnOutputMax = "stop"
)

// DefaultGrace is the time between TERM and KILL when none was asked for.
const DefaultGrace = 10 * time.Second

// Rlimit is one resource limit of the job, as getrlimit(2) has it; ^uint64(0)
// is RLIM_INFINITY.
type Rlimit struct {
	Soft, Hard uint64
}

// RlimitNames are the resource limits by their number on Linux
// (getrlimit(2)), named as in systemd's Limit… properties.
var RlimitNames = [...]string{
	"CPU", "FSIZE", "DATA", "STACK", "CORE", "RSS", "NPROC", "NOFILE",
	"MEMLOCK", "AS", "LOCKS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO", "RTTIME",
}

// Spec is a job as it was asked for. Launching it changes nothing in it.
type Spec struct {
	// Name is the job's name; empty draws one.
	Name string
	// Command is the argument vector, byte for byte; it has at least the
	// command's name.
	Command []string
	// Path is the absolute path of the executable.
	Path string
	// Dir is the absolute working directory.
	Dir string
	// Env is the whole environment of the job, as KEY=VALUE.
	Env []string
	// Assigned are the names of variables that were asked for, or asked not to be: in a
	// job of another user they are in Env, or not, where that user's HOME, LOGNAME, USER
	// and SHELL would stand.
	Assigned []string
	// Umask is the file mode creation mask.
	Umask uint32
	// Rlimits are the resource limits in the order of RlimitNames.
	Rlimits [len(RlimitNames)]Rlimit

	// Isolation are the rungs that may hold the job, in the order in which
	// they are tried; at least one (verify.IsolationService …).
	Isolation []string
	// CgroupParent is the cgroup below which isolation cgroup makes its unit:
	// an absolute path below the cgroup root or in the file system; empty
	// finds one.
	CgroupParent string
	// Manager is the manager to ask.
	Manager Manager
	// Remote is where that is, if not here. Such a job is a service of
	// LifetimeDetached, with Command[0] and Dir (empty is the manager's) as they
	// are there, without input and with its output in the journal there or
	// nowhere. Umask, Rlimits, Env and Limits' evidence are the manager's: what
	// is in Umask, Rlimits and Env is ignored.
	Remote Remote
	// Slice is the slice unit; empty is the default of the manager.
	Slice string
	// InheritSlice puts the unit into the slice that the caller is in, or with
	// Slice into that slice below it: see launch.Launcher.Start.
	InheritSlice bool
	// Description is shown by systemctl; empty is the command line.
	Description string
	// Properties are further unit properties as NAME=VALUE in the syntax of
	// unit files, in the order given.
	Properties []string
	// IgnoreFailure lets the manager take a failure of the command for a
	// success, as "-" before ExecStart= does. The report says what it was.
	IgnoreFailure bool
	// JobMode is what becomes of jobs that the manager has queued already
	// (systemctl(1), --job-mode=); empty is fail.
	JobMode string
	// UID and GID name the user and group to run as; empty is the manager's.
	UID, GID string
	// Nice is the scheduling priority from -20 to 19; nil is the manager's.
	Nice *int

	// Timeout ends the job when it runs longer; 0 is never.
	Timeout time.Duration
	// Grace is the time between TERM and KILL.
	Grace time.Duration
	// KillSignal is what a stop sends first; 0 is SIGTERM.
	KillSignal int
	Leftovers  Leftovers
	Lifetime   Lifetime
	// Owner is a label of the caller's session; it may be empty.
	Owner string
	// DetachAfter lets a job of LifetimeCall outlive its call after that time;
	// 0 never does. See launch.Job.Detach.
	DetachAfter time.Duration
	// Key makes the start idempotent: a job that was started with it and is not
	// settled is returned instead. Empty is none.
	Key string
	// OwnerPID is the process whose end ends a job of LifetimeOwner.
	OwnerPID int
	// OwnerUnit is the unit of a manager, with its suffix, in place of OwnerPID: the
	// job ends once that has no process left. Empty is none.
	OwnerUnit string

	// Limits are the resource limits of the unit as asked for.
	Limits []LimitAsked
	// RequireLimits refuses to run the job where a limit would not hold.
	RequireLimits bool

	Stdin  Input
	Output Output
	// PTY says that the streams of the job are a terminal, which is to be its
	// controlling one. Stdin and Output are then those of whoever starts it, but
	// for one with a Window.
	PTY bool
	// Window, with PTY, is the size of a terminal that the job's keeper makes and
	// holds: see launch.Job.Attach. Output then says what becomes of what is
	// printed there, OutputCapture or OutputNull. nil is no such terminal.
	Window *Window
	// OutputMax is the cap of each stream with OutputCapture, in bytes; 0 keeps
	// nothing. OnOutputMax says what happens when it is passed.
	OutputMax   int64
	OnOutputMax OnOutputMax
}

// Apart reports whether the job is, or may be, of another user than who starts
// it, or below another root directory: by UID, GID, or a property (User=, Group=,
// DynamicUser=, PrivateUsers=managed, RootDirectory=, RootImage=). Such a job can
// neither read what is for its caller alone nor execute this program.
func (s *Spec) Apart() bool {
	return s.UID != "" || s.GID != "" || slices.ContainsFunc(s.Properties, func(a string) bool {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "User", "Group", "RootImage":
			return value != ""
		case "PrivateUsers", "PrivateUsersEx":
			return value == "managed"
		case "RootDirectory":
			return strings.Trim(value, "/") != ""
		case "DynamicUser":
			return isTrue(value)
		}
		return false
	})
}

// NamesUser reports whether the job is, or may be, of another user than who starts it:
// by UID or a property (User=, DynamicUser=).
func (s *Spec) NamesUser() bool {
	return s.UID != "" || slices.ContainsFunc(s.Properties, func(a string) bool {
		name, value, _ := strings.Cut(a, "=")
		return name == "User" && value != "" || name == "DynamicUser" && isTrue(value)
	})
}

// isTrue is false for what says no.
func isTrue(value string) bool {
	return !slices.Contains([]string{"", "0", "no", "n", "false", "f", "off"}, strings.ToLower(value))
}

// Root is the directory that is the job's root: that of its last property
// RootDirectory=, or "/".
func (s *Spec) Root() string {
	root := "/"
	for _, a := range s.Properties {
		if value, ok := strings.CutPrefix(a, "RootDirectory="); ok {
			root = path.Clean("/" + value)
		}
	}
	return root
}

// Window is the size of a terminal in characters.
type Window struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// LimitAsked is a limit of the unit as the user gave it.
type LimitAsked struct {
	// Name is systemd's property name: MemoryMax, TasksMax or CPUQuota.
	Name string
	// Value is the value in the syntax of systemd.resource-control(5).
	Value string
}

// Limit is a limit of the unit with what was found of it.
type Limit struct {
	Name string `json:"name"`
	// Asked is the value as the user gave it.
	Asked string `json:"asked"`
	// Applied is true when the kernel's file holds a limit.
	Applied bool `json:"applied"`
	// Found is that file's content, or why there is none.
	Found string `json:"found"`
}

// LimitsError says that a limit cannot hold here and that, as
// Spec.RequireLimits asks, nothing was run.
type LimitsError struct {
	Limit Limit
}

func (e *LimitsError) Error() string {
	return fmt.Sprintf("cannot apply %s=%s: %s", e.Limit.Name, e.Limit.Asked, e.Limit.Found)
}

// Hint proposes the way out.
func (e *LimitsError) Hint() []string {
	return []string{"leave out --require-limits to run without it, or have the controller delegated; unitward doctor shows which are"}
}
