package launch

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/dbusclient/property"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// AskError is a mistake in what was asked for a job. It matches unit.ErrUsage.
type AskError struct {
	// Problem says what is wrong with the value, without naming the option or
	// field, which are the caller's.
	Problem string
	// Help says what would be right; it may be empty.
	Help string
}

func (e *AskError) Error() string { return e.Problem }

// Hint proposes the way out.
func (e *AskError) Hint() []string {
	if e.Help == "" {
		return nil
	}
	return []string{e.Help}
}

// Is makes an AskError a usage error.
func (e *AskError) Is(target error) bool { return target == unit.ErrUsage }

// Managed are the isolations that a systemd manager holds: what is tried for
// who names a manager.
func Managed() []string { return Ladder()[:2] }

// Rungs checks the isolations that were asked for and drops what is named
// twice. None is none. The error is an *AskError.
func Rungs(asked []string) ([]string, error) {
	ladder := Ladder()
	var rungs []string
	for _, rung := range asked {
		if !slices.Contains(ladder, rung) {
			return nil, &AskError{strconv.Quote(rung) + " is no isolation", "they are " + strings.Join(ladder, ", ") + ", in any order; all of them is the default"}
		}
		if !slices.Contains(rungs, rung) {
			rungs = append(rungs, rung)
		}
	}
	return rungs, nil
}

// KillSignal is the signal of a name such as INT, or of a number, for
// Spec.KillSignal. The error is an *AskError.
func KillSignal(name string) (int, error) {
	n, ok := verify.SignalNumber(strings.ToUpper(name))
	if !ok {
		return 0, &AskError{"no such signal", "give a name such as INT, or a number from 1 to 64"}
	}
	return n, nil
}

// DefaultManager is the manager of a user who names none: the system's for
// root, else the user's own.
func DefaultManager(uid int) unit.Manager {
	if uid == 0 {
		return unit.ManagerSystem
	}
	return unit.ManagerUser
}

// CheckProperties fails for limits and unit properties that no manager would
// understand. The errors are those of package property.
func CheckProperties(s *unit.Spec) error {
	for _, l := range s.Limits {
		if _, err := property.Parse(l.Name + "=" + l.Value); err != nil {
			return err
		}
	}
	_, err := property.ParseAll(s.Properties)
	return err
}

// fits fails for properties that this manager lacks.
func fits(assignments []string, c *dbusclient.Client) error {
	if len(assignments) == 0 {
		return nil
	}
	return property.Supported(assignments, c.Version())
}

// Locate fills in a spec's directory and executable. dir is where the job is
// to run, from the caller's working directory; empty is there. search is the
// environment in which the command is looked for. What is wrong here is not
// what was asked: there is nothing to run, or nowhere. The error is a
// *unit.StartError.
func Locate(s *unit.Spec, dir string, search []string) (err error) {
	if root := s.Root(); root != "/" {
		return locateBelow(root, s, dir, search)
	}
	if s.Dir, err = workingDirectory(s.Command[0], dir); err != nil {
		return err
	}
	s.Path, err = resolve(s.Command[0], s.Dir, search)
	return err
}

// locateBelow is Locate for a job with another root directory: what is found
// there, or else here, need not be what runs, which links and mounts decide.
func locateBelow(root string, s *unit.Spec, dir string, search []string) error {
	s.Dir = filepath.Join("/", dir)
	command := s.Command[0]
	if strings.Contains(command, "/") {
		s.Path = filepath.Join(s.Dir, command)
		if filepath.IsAbs(command) {
			s.Path = filepath.Clean(command)
		}
		return nil
	}
	path, ok := lookup(search, "PATH")
	if !ok {
		path = defaultPath
	}
	for d := range strings.SplitSeq(path, ":") {
		if !filepath.IsAbs(d) {
			d = filepath.Join(s.Dir, d) // an empty one is the working directory
		}
		if s.Path = filepath.Join(d, command); executable(filepath.Join(root, s.Path)) == nil {
			return nil
		}
	}
	// A mount may bring it from here.
	var err error
	s.Path, err = resolve(command, s.Dir, search)
	return err
}

// workingDirectory is the absolute path of what was asked for; empty is the
// caller's own. The error is a *unit.StartError of the command.
func workingDirectory(command, asked string) (dir string, err error) {
	if dir, err = filepath.Abs(asked); err == nil {
		var info os.FileInfo
		if info, err = os.Stat(dir); err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
	}
	if err == nil {
		return dir, nil
	}
	var errno syscall.Errno // without the name once more
	if errors.As(err, &errno) {
		err = errno
	}
	if asked != "" {
		asked = " " + asked
	}
	return "", &unit.StartError{Unit: command, Status: statusNoRun, Detail: "cannot use the working directory" + asked + ": " + err.Error(),
		Hints: []string{"name another with --working-directory"}}
}
