package unit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/unitward/unitward/verify"
)

// ErrUsage is matched by every error that lies in what was asked for.
var ErrUsage = errors.New("usage")

// NotFoundError says that no record of a job exists.
type NotFoundError struct {
	Name string
	// Dir is the directory that was searched.
	Dir string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("cannot find job %s: no record in %s", e.Name, e.Dir)
}

// Hint proposes the way out.
func (e *NotFoundError) Hint() []string {
	return []string{"unitward list shows the jobs that are known"}
}

// ExistsError says that the name belongs to a job that is not settled.
type ExistsError struct {
	Name string
	// State is what is known of that job.
	State State
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("cannot start job %s: a job of that name exists and is %s", e.Name, e.State)
}

// Hint proposes the way out.
func (e *ExistsError) Hint() []string {
	return []string{"end it with: unitward stop " + verify.Typed(e.Name), "or take another name with -u"}
}

// UnitExistsError says that the manager already has a unit of that name which
// is not a job of ours.
type UnitExistsError struct {
	Unit    string
	Manager Manager
	Remote  Remote
}

func (e *UnitExistsError) Error() string {
	return fmt.Sprintf("cannot start %s: %s already has a unit of that name", e.Unit, at(e.Manager, e.Remote))
}

// Hint proposes the way out.
func (e *UnitExistsError) Hint() []string {
	return []string{
		"look at it with: " + Systemctl(e.Manager, e.Remote) + " status " + verify.Typed(e.Unit),
		"a failed one blocks its name until: " + Systemctl(e.Manager, e.Remote) + " reset-failed " + verify.Typed(e.Unit),
	}
}

// NoManagerError says that the manager cannot be reached, with each address
// that was tried.
type NoManagerError struct {
	Manager Manager
	Remote  Remote
	// Tried has one line for each address: where, and why not.
	Tried []string
	// Silent is true when somebody is there who did not answer in time.
	Silent bool
}

func (e *NoManagerError) Error() string {
	if len(e.Tried) == 0 {
		return fmt.Sprintf("cannot reach %s: no address is known", at(e.Manager, e.Remote))
	}
	return fmt.Sprintf("cannot reach %s: %s", at(e.Manager, e.Remote), strings.Join(e.Tried, "; "))
}

// Hint proposes the way out.
func (e *NoManagerError) Hint() []string {
	switch {
	case e.Remote.Host != "":
		return []string{"ssh has to lead there, and systemd-stdio-bridge to be there for it to run"}
	case e.Remote.Machine != "":
		return []string{"machinectl list shows the machines; another user's manager, and that of a machine, are root's to reach"}
	}
	if e.Manager == ManagerSystem {
		return []string{"is PID 1 systemd, and may this user reach /run/dbus/system_bus_socket?", "unitward doctor says what works here"}
	}
	return []string{"a user manager runs while the user is logged in or lingers (loginctl enable-linger), and its bus needs dbus-user-session", "unitward doctor says what works here"}
}

// AccessError says that the manager refused.
type AccessError struct {
	// Op is what was asked, such as "start foo.service".
	Op      string
	Manager Manager
	Remote  Remote
	// Action is the polkit action that was missing; empty when not known.
	Action string
	// Detail is the manager's own sentence.
	Detail string
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("cannot %s: %s denies it: %s", e.Op, at(e.Manager, e.Remote), e.Detail)
}

// Hint proposes the way out.
func (e *AccessError) Hint() []string {
	if e.Manager == ManagerSystem && !e.Remote.Named() {
		h := "run it in your own manager with --user, or as root"
		if e.Action != "" {
			h += ", or let polkit allow " + e.Action
		}
		return []string{h}
	}
	return nil
}

// UnknownOutcomeError says that a request was sent and no reply came: it may
// or may not have been carried out.
type UnknownOutcomeError struct {
	Op  string
	Err error
	// Job is the job whose record stays; empty where there is none.
	Job string
}

func (e *UnknownOutcomeError) Error() string {
	return fmt.Sprintf("cannot tell whether %s was carried out: %v", e.Op, e.Err)
}

func (e *UnknownOutcomeError) Unwrap() error { return e.Err }

// Hint proposes the way out.
func (e *UnknownOutcomeError) Hint() []string {
	if e.Job == "" {
		return nil
	}
	return []string{"look at it with: unitward verify " + verify.Typed(e.Job)}
}

// RecordLostError says that a job was started and ended again, because its
// record was gone by then: nobody could have found it.
type RecordLostError struct {
	Name string
	Err  error
}

func (e *RecordLostError) Error() string {
	return fmt.Sprintf("cannot keep job %s, which ran and was ended again: %v", e.Name, e.Err)
}

func (e *RecordLostError) Unwrap() error { return e.Err }

// PropertyError says that the manager refused a property of the unit.
type PropertyError struct {
	Unit    string
	Version int
	// Detail is the manager's own sentence.
	Detail string
}

func (e *PropertyError) Error() string {
	v := ""
	if e.Version > 0 {
		v = fmt.Sprintf(" %d", e.Version)
	}
	return fmt.Sprintf("cannot start %s: systemd%s refuses its properties: %s", e.Unit, v, e.Detail)
}

// Hint proposes the way out.
func (e *PropertyError) Hint() []string {
	return []string{"check each property against systemd.exec(5), systemd.service(5), systemd.resource-control(5) or the manual of the trigger, and times against systemd.time(7), of this version"}
}

// IdentityError says that what answers to a job's name or number is not that
// job, so nothing was done to it.
type IdentityError struct {
	Name   string
	Detail string
}

func (e *IdentityError) Error() string {
	return fmt.Sprintf("cannot act on job %s: its identity changed: %s", e.Name, e.Detail)
}

// EndedError says that there is nothing left to act on.
type EndedError struct {
	Op, Name string
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("cannot %s job %s: it has ended", e.Op, e.Name)
}

// FreezeError says that the manager can freeze no unit here: it needs cgroup v2
// for that, and Linux 5.2.
type FreezeError struct {
	// Op is freeze or thaw.
	Op, Unit string
	// Detail is the manager's own sentence.
	Detail string
}

func (e *FreezeError) Error() string {
	return fmt.Sprintf("cannot %s %s: the manager freezes no unit here: %s", e.Op, e.Unit, e.Detail)
}

// Hint proposes the way out.
func (e *FreezeError) Hint() []string {
	return []string{"boot with systemd.unified_cgroup_hierarchy=1", "or stop its processes by a signal: unitward kill NAME -s STOP --who all"}
}

// HintDescriptors is the way out where a process has no descriptor left (EMFILE).
const HintDescriptors = "raise the limit of descriptors, such as with: ulimit -n 256"

// StartError says that the unit came to nothing: the manager could not
// execute the command. Nothing of the job ran.
type StartError struct {
	Unit string
	// Step is systemd's name of what failed, such as EXEC or CHDIR; empty
	// when not known.
	Step string
	// Detail is what is known of the reason.
	Detail string
	// Status is what `run` exits with: 125, 126 or 127.
	Status int
	// Hints say what would help; nil when nothing is known to.
	Hints []string
}

func (e *StartError) Error() string {
	if e.Step == "" {
		return fmt.Sprintf("cannot start %s: %s", e.Unit, e.Detail)
	}
	return fmt.Sprintf("cannot start %s: step %s failed: %s", e.Unit, e.Step, e.Detail)
}

// Hint proposes the way out.
func (e *StartError) Hint() []string { return e.Hints }

// Systemctl is how systemctl is asked of units of a manager, here or elsewhere.
func Systemctl(m Manager, r Remote) string {
	if m == ManagerUser {
		return "systemctl --user" + r.Options()
	}
	return "systemctl" + r.Options()
}
