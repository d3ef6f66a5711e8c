// Package store keeps the records of jobs on disk, one directory a job, for
// any later process of the same user to find.
//
// Nobody's word but unitward's own counts: a directory or file that is a
// link, that another user owns or that others may read is reported and never
// believed.
package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// Store is a directory of jobs.
type Store struct {
	dir string
	// mu is held while root is set, once and for all, by ready.
	mu   sync.Mutex
	root *os.Root
}

// Dir is the directory that holds the jobs' directories.
func (s *Store) Dir() string { return s.dir }

// Close releases the store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == nil {
		return nil
	}
	return s.root.Close()
}

// Create makes the directory and the first record of a new job: Reserve and
// Put in one.
func (s *Store) Create(rec *unit.Record) (*Entry, error) {
	e, err := s.Reserve(rec.Name)
	if err != nil {
		return nil, err
	}
	if err := e.Put(rec); err != nil {
		e.Remove()
		e.Close()
		return nil, err
	}
	return e, nil
}

// Reserve makes the directory of a new job, which nobody else can make then.
// A settled job of the same name gives way. The error is a *unit.ExistsError
// when one is there that is not settled, or a *DirError.
func (s *Store) Reserve(name string) (*Entry, error) {
	if err := s.Make(); err != nil {
		return nil, err
	}
	for range 8 {
		err := s.root.Mkdir(name, 0o700)
		if err == nil {
			e, err := s.reserved(name)
			if err != nil {
				return nil, &DirError{s.dir, err}
			}
			if e != nil {
				return e, nil
			}
			continue
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, &DirError{s.dir, err}
		}
		if err := s.giveWay(name); err != nil {
			return nil, err
		}
	}
	return nil, &unit.ExistsError{Name: name, State: unit.StateStarting}
}

// reserved takes a directory that was just made; nil where it is another's by now:
// between its making and its lock it can be found abandoned, and be made anew. It is
// of who locks it before there is a record.
func (s *Store) reserved(name string) (*Entry, error) {
	dir, err := s.root.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		s.root.Remove(name)
		return nil, err
	}
	e := &Entry{store: s, name: name, dir: dir}
	if e.maker, err = dir.Open("."); err == nil {
		err = unix.Flock(int(e.maker.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil && s.stands(name, e.maker) {
		if _, err := dir.Lstat(recordFile); errors.Is(err, fs.ErrNotExist) {
			return e, nil
		}
	}
	e.Close()
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		s.root.Remove(name)
		return nil, err
	}
	return nil, nil
}

// giveWay removes a settled job. One that went away meanwhile, or that another
// start has just reserved, is no error: the caller tries again.
func (s *Store) giveWay(name string) error {
	old, rec, err := s.Load(name)
	if isNotFound(err) {
		s.clear(name)
		return nil
	}
	if err != nil {
		return err
	}
	defer old.Close()
	if rec.Sealed == nil {
		return &unit.ExistsError{Name: name, State: unit.StateRunning}
	}
	return old.Remove()
}

// Load finds a job's record. The error is a *unit.NotFoundError, a
// *CorruptError, a *StrayError or a *DirError.
func (s *Store) Load(name string) (*Entry, *unit.Record, error) {
	if err := s.ready(false); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &unit.NotFoundError{Name: name, Dir: s.dir}
	} else if err != nil {
		return nil, nil, err
	}
	info, err := s.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &unit.NotFoundError{Name: name, Dir: s.dir}
	}
	if err == nil {
		err = privateInfo(info)
	}
	if err != nil {
		return nil, nil, &StrayError{filepath.Join(s.dir, name), err}
	}
	dir, err := s.root.OpenRoot(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &unit.NotFoundError{Name: name, Dir: s.dir}
	}
	if err != nil {
		return nil, nil, &StrayError{filepath.Join(s.dir, name), err}
	}
	e := &Entry{store: s, name: name, dir: dir}
	rec, err := e.Record()
	if err != nil {
		e.Close()
		return nil, nil, err
	}
	return e, rec, nil
}

// Names lists the jobs on record, sorted. A directory without a record that nobody
// holds was left by a start that died before it wrote one: it is removed.
func (s *Store) Names() ([]string, error) {
	if err := s.ready(false); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	d, err := s.root.Open(".")
	if err != nil {
		return nil, &DirError{s.dir, err}
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, &DirError{s.dir, err}
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), trashPrefix) {
			s.root.RemoveAll(e.Name())
			continue
		}
		if e.Name() == tidyFile || e.Name() == keysDir {
			continue
		}
		if s.abandoned(e.Name()) {
			continue
		}
		names = append(names, e.Name())
	}
	sort.Strings(names)
	return names, nil
}

func (s *Store) abandoned(name string) bool {
	if _, err := s.root.Lstat(filepath.Join(name, recordFile)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	// One that was made just now may be about to be locked.
	if info, err := s.root.Lstat(name); err == nil && time.Since(info.ModTime()) > time.Second {
		s.clear(name)
	}
	return true
}

// clear removes a directory that was reserved for a job, and whose maker died before
// it wrote a record: nothing was started then. What was not made by a start stays, and
// the directory with it.
func (s *Store) clear(name string) {
	if info, err := s.root.Lstat(name); err != nil || privateInfo(info) != nil {
		return
	}
	d, err := s.root.Open(name)
	if err != nil {
		return
	}
	defer d.Close()
	if unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || !s.stands(name, d) {
		return
	}
	entries, _ := d.ReadDir(-1)
	for _, e := range entries {
		if e.Name() == recordFile {
			return
		}
	}
	for _, e := range entries {
		if ofStart(e.Name()) {
			s.root.Remove(filepath.Join(name, e.Name()))
		}
	}
	s.root.Remove(name) // only when it is empty
}

// ofStart says of a file's name that a start makes one of that name beside its
// record: what the reaper writes, room for the exit, the output, the terminal's socket.
func ofStart(name string) bool {
	switch name {
	case keptFile, exitSpaceFile, "terminal":
		return true
	}
	stream, _, _ := strings.Cut(name, ".")
	return stream == "stdout" || stream == "stderr" || strings.HasPrefix(name, "."+recordFile+"-")
}

func isNotFound(err error) bool {
	var nf *unit.NotFoundError
	return errors.As(err, &nf)
}

// lock takes an exclusive lock that ends with f.
func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}
