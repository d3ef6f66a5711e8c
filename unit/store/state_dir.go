package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DefaultDir is where the records of a user are: $UNITWARD_STATE_DIR, else
// /var/lib/unitward for root, else $XDG_STATE_HOME/unitward, else
// ~/.local/state/unitward. It is empty when none of them is known.
func DefaultDir(getenv func(string) string, uid int) string {
	if d := getenv("UNITWARD_STATE_DIR"); d != "" {
		return d
	}
	if uid == 0 {
		return "/var/lib/unitward"
	}
	if d := getenv("XDG_STATE_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "unitward")
	}
	if d := getenv("HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, ".local", "state", "unitward")
	}
	return ""
}

// StrayError says that what stands in the place of a job's directory is none
// of unitward's.
type StrayError struct {
	Path string
	Err  error
}

func (e *StrayError) Error() string {
	return fmt.Sprintf("cannot take %s for a job: %v", e.Path, e.Err)
}

func (e *StrayError) Unwrap() error { return e.Err }

// Hint proposes the way out.
func (e *StrayError) Hint() []string {
	return []string{"unitward has not made it so: move it out of there, or give a job's directory back to its user with mode 0700"}
}

// jobsDir is where below the state directory the jobs' directories are.
const jobsDir = "jobs"

// SplitDir is the state directory and the job of a job's directory, which has a
// record in it. Where it is none, or has none, the error says what is missing.
func SplitDir(dir string) (state, name string, err error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", err
	}
	jobs, name := filepath.Split(abs)
	if filepath.Base(jobs) != jobsDir || name == "" {
		return "", "", errors.New("it is no job's directory")
	}
	// Who may not look gets the state directory's own answer.
	if _, err := os.Lstat(filepath.Join(abs, recordFile)); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return "", "", errors.New("there is no record in it")
	}
	return filepath.Dir(filepath.Clean(jobs)), name, nil
}
