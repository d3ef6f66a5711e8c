package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// DirError says that the state directory cannot be used.
type DirError struct {
	Dir string
	Err error
}

func (e *DirError) Error() string {
	return fmt.Sprintf("cannot use the state directory %s: %v", e.Dir, e.Err)
}

func (e *DirError) Unwrap() error { return e.Err }

// Hint proposes the way out.
func (e *DirError) Hint() []string {
	return []string{"name another with --state-dir or UNITWARD_STATE_DIR: a directory of yours with mode 0700"}
}

// Open opens the store in dir, an absolute path. Where the directory is missing it
// is made, with mode 0700, when something is first put into it: until then the store
// is empty. The error is a *DirError.
func Open(dir string) (*Store, error) {
	if !filepath.IsAbs(dir) {
		return nil, &DirError{dir, errors.New("its path is not absolute")}
	}
	s := &Store{dir: filepath.Join(dir, jobsDir)}
	if err := s.ready(false); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return s, nil
}

// Make makes the directory where it is missing. The error is a *DirError.
func (s *Store) Make() error { return s.ready(true) }

// ready opens the directory, unless it is open, and makes it if it may. The error is
// a *DirError: of fs.ErrNotExist where it is not there.
func (s *Store) ready(create bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root != nil {
		return nil
	}
	dir := filepath.Dir(s.dir)
	// What is there is judged before anything is made in it.
	if err := private(dir); err != nil && (!create || !errors.Is(err, fs.ErrNotExist)) {
		return &DirError{dir, err}
	}
	root, err := os.OpenRoot(s.dir)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return &DirError{dir, err}
		}
		root, err = os.OpenRoot(s.dir)
	}
	if err != nil {
		return &DirError{dir, err}
	}
	for _, d := range []string{dir, s.dir} {
		if err := private(d); err != nil {
			root.Close()
			return &DirError{d, err}
		}
	}
	s.root = root
	return nil
}

// private checks that a directory is ours alone.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	return privateInfo(info)
}

func privateInfo(info fs.FileInfo) error {
	if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	return owned(info)
}

// owned checks owner and mode of a file or directory.
func owned(info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("it belongs to uid %d, not %d", st.Uid, os.Geteuid())
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("its mode is %04o: others can reach it", perm)
	}
	return nil
}

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
