package dbusclient

import (
	"cmp"
	"os"
	"strings"
	"time"

	"github.com/unitward/unitward/dbusclient/dbus"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
)

// Service is a transient service as the manager is to make it. It is the
// manager's view of a unit.Spec, with everything resolved.
type Service struct {
	// Unit is the full unit name.
	Unit        string
	Description string
	Slice       string
	// Path is the absolute executable, or a name that the manager looks up, Argv
	// its argument vector. Both and Dir, where empty is the manager's own, are
	// valid UTF-8.
	Path string
	Argv []string
	Dir  string
	// IgnoreFailure takes a failure of the command for a success.
	IgnoreFailure bool
	// JobMode is the mode of the start job; empty is fail.
	JobMode string
	// Umask is the file mode creation mask; nil is the manager's.
	Umask *uint32
	// EnvironmentFile is read by the manager before it executes; empty is
	// none. A missing file fails the start.
	EnvironmentFile string
	// Unset are variables that the manager would add and the job must not
	// have.
	Unset []string
	// Rlimits are the resource limits in the order of unit.RlimitNames; nil
	// is the manager's.
	Rlimits []unit.Rlimit
	// Stdin, Stdout and Stderr are passed to the job; nil is /dev/null for
	// Stdin, and Output for the others. Stderr can be Stdout: then it is passed once.
	Stdin, Stdout, Stderr *os.File
	// StdinFile, StdoutFile and StderrFile are absolute paths of what to open in the
	// place of Stdin, Stdout and Stderr; empty is those.
	StdinFile, StdoutFile, StderrFile string
	// Output is null or journal, where Stdout and Stderr are nil; empty is null.
	Output unit.Output
	// Grace is the time between TERM and KILL; below a microsecond it is a
	// microsecond, since 0 means for ever (systemd.service(5)).
	Grace time.Duration
	// Timeout ends the service; 0 is never.
	Timeout time.Duration
	// KillSignal is the first signal of a stop; 0 is SIGTERM.
	KillSignal int
	Leftovers  unit.Leftovers
	// StopPost is a command that runs when the main process has ended; nil is
	// none. Privileged runs it as the manager's user whatever UID says.
	StopPost   []string
	Privileged bool
	// Scope is a scope that takes the service with it when it ends; empty is
	// none. It is made together with the service, around GuardPID; where that
	// is 0 it is there already.
	Scope    string
	GuardPID int
	// Hold is a slice that is made together with the service, and keeps it loaded
	// after its end until the slice is stopped; empty is none.
	Hold string
	// Environment are assignments of variables. Everybody can read them.
	Environment []string
	// Sending is called right before the request goes out, and Sent once it has;
	// nil is nothing.
	Sending, Sent func()
	// ScopeEnds ends the scope, and the guard in it, with the service too.
	ScopeEnds bool
	UID, GID  string
	Nice      *int
	// Properties are the user's own. They come last.
	Properties []property.Property
}

// aux is an element of StartTransientUnit's auxiliary units, a(sa(sv)).
type aux struct {
	Name       string
	Properties []property.Property
}

// versionExitType is the first systemd whose ExitType=cgroup keeps a very
// fast exit apart (NEWS 250 has the property, 254 the repair).
const versionExitType = 254

// versionExec is the first systemd that is trusted with Type=exec. The event
// source of its pipe can stay behind on 247: PID 1 then reads the pipe's end
// over and over, at full speed and for ever, and answers nobody (seen).
const versionExec = 248

// WaitsForExec reports whether the start job of a service waits, on a systemd
// of that version, until the command was executed. Else it is done with the
// fork, and a command that could not be executed has ended with one of
// systemd's own statuses (systemd.exec(5), "Process Exit Codes").
// An unknown version, 0, is taken for a newer one.
func WaitsForExec(version int) bool { return version == 0 || version >= versionExec }

func serviceType(version int) string {
	if WaitsForExec(version) {
		return "exec"
	}
	return "simple"
}

// HasExitType reports whether a systemd of that version can keep a unit until
// its cgroup is empty (ExitType=cgroup).
func HasExitType(version int) bool { return version >= versionExitType }

func (s *Service) properties(l *link, ref bool) ([]property.Property, []aux) {
	var p []property.Property
	add := func(name string, value any) {
		p = append(p, property.Property{Name: name, Value: dbus.MakeVariant(value)})
	}
	add("Description", s.Description)
	add("Slice", s.Slice)
	add("Type", serviceType(l.version))
	command(add, "ExecStart", l.version, s.Path, s.Argv, s.IgnoreFailure, false)
	if s.Dir != "" {
		add("WorkingDirectory", s.Dir)
	}
	if len(s.Environment) > 0 {
		add("Environment", s.Environment)
	}
	add("IgnoreSIGPIPE", false)
	add("TimeoutStopUSec", usec(s.Grace))
	add("CollectMode", "inactive-or-failed")
	if ref {
		add("AddRef", true)
	}
	if s.Timeout > 0 {
		add("RuntimeMaxUSec", usec(s.Timeout))
	}
	if s.KillSignal != 0 {
		add("KillSignal", int32(s.KillSignal))
	}
	if s.Leftovers != unit.LeftoversKill {
		if HasExitType(l.version) {
			add("ExitType", "cgroup")
		} else {
			// RemainAfterExit= is heeded after a success only: a main process
			// that fails would take with it what is to be left. What the exit
			// was is read from ExecMainCode and ExecMainStatus.
			add("RemainAfterExit", true)
			add("SuccessExitStatus", everyExit())
		}
	}
	if s.Umask != nil {
		add("UMask", *s.Umask)
	}
	if s.EnvironmentFile != "" {
		add("EnvironmentFiles", []struct {
			Path     string
			Optional bool
		}{{s.EnvironmentFile, false}})
	}
	if len(s.Unset) > 0 {
		add("UnsetEnvironment", s.Unset)
	}
	for i, lim := range s.Rlimits {
		add("Limit"+unit.RlimitNames[i], lim.Hard)
		add("Limit"+unit.RlimitNames[i]+"Soft", lim.Soft)
	}
	s.stdio(add)
	if s.StopPost != nil {
		command(add, "ExecStopPost", l.version, s.StopPost[0], s.StopPost, true, s.Privileged)
	}
	if s.UID != "" {
		add("User", s.UID)
	}
	if s.GID != "" {
		add("Group", s.GID)
	}
	if s.Nice != nil {
		add("Nice", int32(*s.Nice))
	}
	auxes := []aux{}
	if s.Scope != "" {
		add("BindsTo", []string{s.Scope})
		add("After", []string{s.Scope})
	}
	if s.Scope != "" && s.GuardPID != 0 {
		scope := []property.Property{
			{Name: "Description", Value: dbus.MakeVariant("guard of " + s.Unit)},
			{Name: "Slice", Value: dbus.MakeVariant(s.Slice)},
			{Name: "PIDs", Value: dbus.MakeVariant([]uint32{uint32(s.GuardPID)})},
			// The service has them, which ends the guard's purpose at a
			// shutdown. A second Conflicts=shutdown.target in one transaction
			// costs the manager half a millisecond.
			{Name: "DefaultDependencies", Value: dbus.MakeVariant(false)},
			{Name: "CollectMode", Value: dbus.MakeVariant("inactive-or-failed")},
		}
		if s.ScopeEnds {
			// It is needed by the service alone, from the job that starts it
			// on. systemd.unit(5)
			scope = append(scope, property.Property{Name: "StopWhenUnneeded", Value: dbus.MakeVariant(true)})
		} else {
			// After= in the scope's own words. A unit that another one refers to is
			// not unloaded (unit_gc_sweep()): what AddRef asks for is lost with the
			// bus, this is not, and the end can be read from a manager that is
			// reached again.
			scope = append(scope, property.Property{Name: "Before", Value: dbus.MakeVariant([]string{s.Unit})})
		}
		auxes = append(auxes, aux{s.Scope, scope})
	}
	if s.Hold != "" {
		// A unit that another one refers to is not unloaded
		// (unit_gc_sweep()), whatever becomes of the connection.
		add("Wants", []string{s.Hold})
		auxes = append(auxes, aux{s.Hold, []property.Property{
			{Name: "Description", Value: dbus.MakeVariant("keeps the end of " + s.Unit)},
			{Name: "After", Value: dbus.MakeVariant([]string{s.Unit})},
		}})
	}
	return append(p, s.Properties...), auxes
}

// exitStatuses is the value of SuccessExitStatus=, (aiai).
type exitStatuses struct{ Status, Signal []int32 }

// everyExit is every end that a process can come to.
func everyExit() exitStatuses {
	var e exitStatuses
	for n := int32(1); n <= 255; n++ {
		e.Status = append(e.Status, n)
	}
	for n := int32(1); n <= 64; n++ {
		if n != 32 && n != 33 { // the C library's own
			e.Signal = append(e.Signal, n)
		}
	}
	return e
}

func (s *Service) stdio(add func(string, any)) {
	one := func(name, path string, f *os.File) {
		switch {
		case path != "":
			add(name+"File", path)
		case f != nil:
			add(name+"FileDescriptor", dbus.UnixFD(f.Fd()))
		default:
			add(name, string(cmp.Or(s.Output, unit.OutputNull)))
		}
	}
	if s.Stdin != nil {
		one("StandardInput", s.StdinFile, s.Stdin)
	}
	// Output alone would take errors along (systemd.exec(5), StandardError=
	// inherits), so both are always said.
	one("StandardOutput", s.StdoutFile, s.Stdout)
	if s.StderrFile == "" && s.Stderr != nil && s.Stderr == s.Stdout {
		add("StandardError", "inherit")
		return
	}
	one("StandardError", s.StderrFile, s.Stderr)
}

// versionForksToClose is the first systemd that forks itself to close a descriptor
// which a service was given (asynchronous_close()): two for its output cost it a third
// of all that it does for a short service.
const versionForksToClose = 254

// ForksToClose reports whether a systemd of that version takes a path with less work
// than a descriptor. An unknown version, 0, is taken for one that does not.
func ForksToClose(version int) bool { return version >= versionForksToClose }

func usec(d time.Duration) uint64 {
	return uint64(max(d.Microseconds(), 1))
}

// GuardScope is the name of the scope for a guard, from a nonce: of the job that
// it is for, or of its own.
func GuardScope(nonce string) string { return guardPrefix + nonce + ".scope" }

const guardPrefix = "unitward-guard-"

func isGuardScope(name string) bool { return strings.HasPrefix(name, guardPrefix) }
