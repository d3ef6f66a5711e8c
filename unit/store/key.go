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
	if info, err := s.root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, &DirError{s.dir, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}}
	}
	f, err := s.root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		err = lock(f)
		if err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, &DirError{s.dir, err}
	}
	return &Key{f: f, key: key}, nil
}

// Job is the name of the job that was started last with the key; empty when
// there was none.
func (k *Key) Job() string {
	var c keyFile
	b, err := io.ReadAll(io.NewSectionReader(k.f, 0, 2*maxKey+1024))
	if err != nil || json.Unmarshal(b, &c) != nil || c.Key != k.key {
		return "" // a file that was torn names no job
	}
	return c.Job
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
