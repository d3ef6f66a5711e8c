package launch

import (
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// FieldError says of a part of a job that it cannot be used, or not with another
// one. It matches unit.ErrUsage. Parts have the names of the server's fields; who
// calls them otherwise says so to Says and Hints.
type FieldError struct {
	// Field is the part, and Value what it was given, as it is to be shown; empty
	// is nothing to show.
	Field, Value string
	// Other is the part that it does not go with; it may be empty.
	Other, OtherValue string
	// Problem says what is wrong, and Help what would be right, with names of
	// parts as ${name}; Help may be empty.
	Problem, Help string
}

// Says is the error, with parts called as name has them.
func (e *FieldError) Says(name func(field string) string) string {
	s := "cannot use " + strings.TrimSpace(name(e.Field)+" "+e.Value)
	if e.Other != "" {
		s += " with " + strings.TrimSpace(name(e.Other)+" "+e.OtherValue)
	}
	return s + ": " + e.Problem
}

// Hints propose the way out, with parts called as name has them.
func (e *FieldError) Hints(name func(field string) string) []string {
	if e.Help == "" {
		return nil
	}
	return []string{os.Expand(e.Help, name)}
}

func (e *FieldError) Error() string { return e.Says(strings.Clone) }

// Hint is Hints with the names that parts have here.
func (e *FieldError) Hint() []string { return e.Hints(strings.Clone) }

// Is makes a FieldError a usage error.
func (e *FieldError) Is(target error) bool { return target == unit.ErrUsage }

// maxQuoted is how much of a value is shown.
const maxQuoted = 200

// Quote is how a value stands in an error: quoted, and of a long one its beginning.
func Quote(value string) string {
	if len(value) > maxQuoted {
		return strconv.Quote(value[:maxQuoted]) + "…"
	}
	return strconv.Quote(value)
}

// Choices are the values that a part of a job can have, the default of the server
// first; nil for one that can have others.
func Choices(field string) []string {
	switch field {
	case "leftovers":
		return []string{string(unit.LeftoversKill), string(unit.LeftoversWait), string(unit.LeftoversKeep)}
	case "lifetime":
		return []string{string(unit.LifetimeCall), string(unit.LifetimeOwner), string(unit.LifetimeDetached)}
	case "stdin":
		return []string{string(unit.InputNull), string(unit.InputInherit)}
	case "output":
		return []string{string(unit.OutputCapture), string(unit.OutputInherit), string(unit.OutputJournal), string(unit.OutputNull)}
	case "on_output_max":
		return []string{string(unit.OnOutputMaxTruncate), string(unit.OnOutputMaxStop)}
	}
	return nil
}

// CheckChoice refuses a value that a part cannot have.
func CheckChoice(field, value string) error {
	if allowed := Choices(field); !slices.Contains(allowed, value) {
		return &FieldError{Field: field, Value: Quote(value), Problem: "one of " + strings.Join(allowed, ", ") + " is expected"}
	}
	return nil
}

// Check refuses a job that could be started nowhere as it was asked for, and
// completes the name of its slice. Its name, its times and its environment are
// checked where they are read. The errors are *FieldError, *unit.SliceError and
// those of CheckProperties.
func Check(s *unit.Spec) error {
	for _, c := range [][2]string{
		{"leftovers", string(s.Leftovers)}, {"lifetime", string(s.Lifetime)}, {"stdin", string(s.Stdin)}, {"output", string(s.Output)},
	} {
		if err := CheckChoice(c[0], c[1]); err != nil {
			return err
		}
	}
	if s.OnOutputMax != "" || s.Output == unit.OutputCapture {
		if err := CheckChoice("on_output_max", string(s.OnOutputMax)); err != nil {
			return err
		}
	}
	for _, step := range []func(*unit.Spec) error{checkOwner, checkPlace, checkCaller} {
		if err := step(s); err != nil {
			return err
		}
	}
	return CheckProperties(s)
}

// checkOwner is for what a job ends with.
func checkOwner(s *unit.Spec) error {
	const help = "add ${lifetime} owner"
	owned, lifetime := s.Lifetime == unit.LifetimeOwner, string(s.Lifetime)
	switch {
	case s.OwnerPID != 0 && s.OwnerUnit != "":
		return &FieldError{Field: "owner_unit", Other: "owner_pid", Problem: "a job has one owner"}
	case s.OwnerPID < 0:
		return &FieldError{Field: "owner_pid", Value: strconv.Itoa(s.OwnerPID), Problem: "the number of a process is expected"}
	case owned && s.OwnerPID == 0 && s.OwnerUnit == "":
		return &FieldError{Field: "lifetime", Value: lifetime, Problem: "no owner was named", Help: "name its process with ${owner_pid}, or its unit with ${owner_unit}"}
	case !owned && s.OwnerPID != 0:
		return &FieldError{Field: "owner_pid", Other: "lifetime", OtherValue: lifetime, Problem: "such a job has no owner", Help: help}
	case !owned && s.OwnerUnit != "":
		return &FieldError{Field: "owner_unit", Other: "lifetime", OtherValue: lifetime, Problem: "such a job has no owner", Help: help}
	case s.OwnerUnit != "" && !unit.IsOwnerUnit(s.OwnerUnit):
		return &FieldError{Field: "owner_unit", Value: Quote(s.OwnerUnit), Problem: "the name of a unit, such as user@1000.service or session-2.scope, is expected"}
	}
	return nil
}

// checkPlace is for where a job is made.
func checkPlace(s *unit.Spec) (err error) {
	if p := s.CgroupParent; p != "" && (!path.IsAbs(p) || path.Clean(p) != p) {
		return &FieldError{Field: "cgroup_parent", Value: Quote(p), Problem: "a clean absolute path is expected", Help: "it is that below the cgroup root, as in /proc/self/cgroup"}
	}
	if s.Slice != "" {
		s.Slice, err = unit.ParseSlice(s.Slice)
	}
	return err
}

// checkCaller is for as whom a job runs, and how.
func checkCaller(s *unit.Spec) error {
	for _, who := range []struct{ field, name string }{{"uid", s.UID}, {"gid", s.GID}} {
		var asked *AskError
		if err := CheckUser(who.name); errors.As(err, &asked) {
			return &FieldError{Field: who.field, Value: Quote(who.name), Problem: asked.Problem, Help: asked.Help}
		}
	}
	if s.Nice != nil && (*s.Nice < -20 || *s.Nice > 19) {
		return &FieldError{Field: "nice", Value: strconv.Itoa(*s.Nice), Problem: "a level from -20 to 19 is expected"}
	}
	return nil
}

// Choose decides on the isolations to try, of those that were asked for; none is
// all that fit. named is true for who has named a manager, and wants it. parent is
// Spec.CgroupParent. The error is a *FieldError.
func Choose(asked []string, named bool, parent string) ([]string, error) {
	rungs, err := Rungs(asked)
	var wrong *AskError
	if errors.As(err, &wrong) {
		return nil, &FieldError{Field: "isolation", Value: Quote(strings.Join(asked, ",")), Problem: wrong.Problem, Help: wrong.Help}
	}
	switch {
	case len(rungs) > 0:
	case named && parent != "":
		return nil, &FieldError{Field: "cgroup_parent", Other: "manager", Problem: "a manager makes the cgroups of its units", Help: "leave one of them out"}
	case named:
		return Managed(), nil
	case parent != "":
		return []string{verify.IsolationCgroup}, nil
	default:
		return Ladder(), nil
	}
	refused := &FieldError{Other: "isolation", OtherValue: strings.Join(rungs, ","), Help: "leave one of them out"}
	switch {
	case named && !slices.ContainsFunc(rungs, managed):
		refused.Field, refused.Problem = "manager", "no manager holds such a job"
		return nil, refused
	case parent != "" && !slices.Contains(rungs, verify.IsolationCgroup):
		refused.Field, refused.Problem = "cgroup_parent", "isolation cgroup is not among them"
		return nil, refused
	}
	return rungs, nil
}

// Assigned is the property that a part of a job sets, and that could be set as a
// property too; empty for any other.
func Assigned(field string) string {
	switch field {
	case "memory_max":
		return "MemoryMax"
	case "tasks_max":
		return "TasksMax"
	case "cpu_quota":
		return "CPUQuota"
	case "nice":
		return "Nice"
	case "uid":
		return "User"
	case "gid":
		return "Group"
	case "slice":
		return "Slice"
	case "description":
		return "Description"
	case "working_directory":
		return "WorkingDirectory"
	case "root_directory":
		return "RootDirectory"
	case "send_sighup":
		return "SendSIGHUP"
	}
	return ""
}

// CheckAssigned refuses unit properties that a part of the job sets, too; given
// are the parts that were. The error is a *FieldError.
func CheckAssigned(properties, given []string) error {
	for _, p := range properties {
		name, _, _ := strings.Cut(p, "=")
		for _, field := range given {
			if name == Assigned(field) {
				return &FieldError{Field: field, Other: "property", OtherValue: Quote(p), Problem: "both set the property", Help: "leave out one of the two"}
			}
		}
	}
	return nil
}

// CheckVariable refuses a variable that a job cannot be given. The error is an
// *AskError.
func CheckVariable(name string) error {
	if name == unit.JobVariable {
		return &AskError{Problem: "unitward sets it to the job's name"}
	}
	return nil
}
