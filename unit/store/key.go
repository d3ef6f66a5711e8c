package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Key is what an idempotent start holds while it looks for the job of its key
// and starts one if there is none. Close it.
type Key struct {
	f   *os.File
	key string
}

// keysDir holds a file for each key. No job has such a name.
const keysDir = ".keys"

// maxKey bounds a key in bytes.
const maxKey = 1024

// keyFile is the content of a key's file.
type keyFile struct {
	Key string `json:"key"`
	Job string `json:"job"`
}

// Key takes a key, waiting for another start that holds it. The error is a
// *DirError, or says that the key is too long or empty.
func (s *Store) Key(key string) (*Key, error) {
	if key == "" || len(key) > maxKey {
		return nil, fmt.Errorf("cannot use the key %.40q: 1 to %d bytes are expected", key, maxKey)
	}
	if err := s.Make(); err != nil {
		return nil, err
	}
	if err := s.root.Mkdir(keysDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &DirError{s.dir, err}
	}
	info, err := s.root.Lstat(keysDir)
	if err == nil {
		err = privateInfo(info)
	}
	if err != nil {
		return nil, &DirError{s.dir, err}
	}
	sum := sha256.Sum256([]byte(key))
	name := keysDir + "/" + hex.EncodeToString(sum[:])
	for {
		f, err := s.openKey(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, &DirError{s.dir, err}
		}
		if err := lock(f); err != nil {
			f.Close()
			return nil, &DirError{s.dir, err}
		}
		if s.stands(name, f) {
			return &Key{f: f, key: key}, nil
		}
		f.Close() // it was tidied away meanwhile: what is locked is nobody's file
	}
}

func (s *Store) openKey(name string, flag int) (*os.File, error) {
	if info, err := s.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return s.root.OpenFile(name, flag, 0o600)
}

// stands is true when a name is that of the open file.
func (s *Store) stands(name string, f *os.File) bool {
	there, err := s.root.Lstat(name)
	if err != nil {
		return false
	}
	open, err := f.Stat()
	return err == nil && os.SameFile(there, open)
}

// tidyKeys removes the files of keys whose jobs are gone and which nobody holds.
func (s *Store) tidyKeys(now time.Time) {
	if s.ready(false) != nil {
		return
	}
	dir, err := s.root.Open(keysDir)
	if err != nil {
		return // there is none
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(-1)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) > tidyEvery {
			s.tidyKey(keysDir + "/" + e.Name())
		}
	}
}

func (s *Store) tidyKey(name string) {
	f, err := s.openKey(name, os.O_RDWR|syscall.O_NONBLOCK)
	if err != nil {
		return // not ours to judge
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil || !s.stands(name, f) {
		return
	}
	job := readKey(f).Job
	if job != "" {
		if _, err := s.root.Lstat(job); !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	_ = s.root.Remove(name) // it is there the next time, else
}

// readKey is what a key's file says; one that was torn says nothing.
func readKey(f *os.File) (c keyFile) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, 2*maxKey+1024))
	if err != nil || json.Unmarshal(b, &c) != nil {
		return keyFile{}
	}
	return c
}

// Job is the name of the job that was started last with the key; empty when
// there was none.
func (k *Key) Job() string {
	if c := readKey(k.f); c.Key == k.key {
		return c.Job
	}
	return ""
}

// Put names the job of the key.
func (k *Key) Put(job string) error {
	b, err := json.Marshal(keyFile{k.key, job})
	if err == nil {
		_, err = k.f.WriteAt(b, 0)
	}
	if err == nil {
		err = k.f.Truncate(int64(len(b)))
	}
	if err != nil {
		return fmt.Errorf("cannot write down the key %.40q: %w", k.key, err)
	}
	return nil
}

// Close lets go of the key.
func (k *Key) Close() { k.f.Close() }
