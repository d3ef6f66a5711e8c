package store

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/unitward/unitward/unit"
)

const (
	recordFile  = "job.json"
	exitFile    = "exit.json"
	trashPrefix = ".trash-"

	// maxRecord bounds what is read of one record.
	maxRecord = 1 << 20
)

// Entry is one job's directory.
type Entry struct {
	store *Store
	name  string
	dir   *os.Root
	known known
	// maker is the directory, locked from its making until the first record is
	// written: as long as it is, somebody lives who is to write it. nil is neither.
	maker *os.File
}

// CorruptError says that a record cannot be believed.
type CorruptError struct {
	File string
	Err  error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("cannot believe the record %s: %v", e.File, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Hint proposes the way out.
func (e *CorruptError) Hint() []string {
	return []string{"look at the unit itself with systemctl; remove the directory by hand when nothing of it runs"}
}

// Dir is the entry's directory.
func (e *Entry) Dir() string { return filepath.Join(e.store.dir, e.name) }

// OpenDir opens the entry's directory itself, for what is kept in it beside
// the records. The caller closes it. The error is a *DirError.
func (e *Entry) OpenDir() (*os.File, error) {
	d, err := e.dir.Open(".")
	if err != nil {
		return nil, &DirError{e.Dir(), err}
	}
	return d, nil
}

// Close releases the entry; the directory stays.
func (e *Entry) Close() error {
	e.made()
	return e.dir.Close()
}

// made: there is a first record, or there will be none.
func (e *Entry) made() {
	if e.maker != nil {
		e.maker.Close()
		e.maker = nil
	}
}

// Record reads the record. The error is a *unit.NotFoundError when it is
// gone, or a *CorruptError.
func (e *Entry) Record() (*unit.Record, error) {
	b, err := e.content(recordFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &unit.NotFoundError{Name: e.name, Dir: e.store.dir}
	}
	if err == nil {
		if rec := e.known.get(b); rec != nil {
			return rec, nil
		}
	}
	var rec unit.Record
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err == nil && rec.Schema != unit.RecordSchema {
		err = fmt.Errorf("its schema is %q, not %q", rec.Schema, unit.RecordSchema)
	}
	if err == nil && rec.Name != e.name {
		err = fmt.Errorf("it speaks of job %q", rec.Name)
	}
	if err == nil {
		err = contradiction(&rec)
	}
	if err != nil {
		return nil, &CorruptError{filepath.Join(e.Dir(), recordFile), err}
	}
	return &rec, nil
}

// contradiction is what in a record is not of its job.
func contradiction(rec *unit.Record) error {
	if sealed := rec.Sealed; sealed != nil && string(sealed.Name) != rec.Name {
		return fmt.Errorf("its report speaks of job %q", sealed.Name)
	}
	if u := rec.Identity.Unit; u != "" && u != rec.Name+".service" && u != rec.Name+".scope" {
		return fmt.Errorf("it speaks of unit %q", u)
	}
	return nil
}

// Put writes the first record of a job.
func (e *Entry) Put(rec *unit.Record) error { return e.put(rec, false) }

func (e *Entry) put(rec *unit.Record, durable bool) error {
	b, err := e.write(recordFile, rec, durable)
	if err == nil {
		e.known.set(b, rec)
		e.made()
	}
	return err
}

func (e *Entry) encode(name string, v any) ([]byte, error) {
	b, err := encode(v)
	if err != nil {
		return nil, fmt.Errorf("cannot encode %s: %w", filepath.Join(e.Dir(), name), err)
	}
	if len(b) > maxRecord {
		return nil, fmt.Errorf("cannot write %s: it would have %d bytes, at most %d are allowed", filepath.Join(e.Dir(), name), len(b), maxRecord)
	}
	return b, nil
}

// Update changes the record under the entry's lock: change gets the record as
// it is on disk now. It returns the record as written. durable waits for the
// disk, for what must outlive a crash of the host.
func (e *Entry) Update(durable bool, change func(*unit.Record)) (*unit.Record, error) {
	// The directory itself is what is locked: it needs no file of its own, and
	// stays when files are replaced.
	l, err := e.dir.Open(".")
	if err != nil {
		return nil, &DirError{e.Dir(), err}
	}
	defer l.Close()
	if err := lock(l); err != nil {
		return nil, &DirError{e.Dir(), err}
	}
	rec, err := e.Record()
	if err != nil {
		return nil, err
	}
	change(rec)
	return rec, e.put(rec, durable)
}

// Remove drops the entry. The directory disappears at once, whole. It is no
// error when that has happened already.
func (e *Entry) Remove() error {
	// By the time a name is removed it may be the next job's. Every removal
	// is under this lock, and a directory can only be made where none is: one
	// that is found to be ours stays ours until the rename.
	l, err := e.store.root.Open(".")
	if err != nil {
		return &DirError{e.store.dir, err}
	}
	defer l.Close()
	if err := lock(l); err != nil {
		return &DirError{e.store.dir, err}
	}
	ours, err := e.dir.Stat(".")
	if err != nil {
		return &DirError{e.Dir(), err}
	}
	if there, err := e.store.root.Lstat(e.name); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(there, ours) {
		return nil
	}
	trash := trashPrefix + rand.Text()
	if err := e.store.root.Rename(e.name, trash); err != nil {
		return &DirError{e.Dir(), err}
	}
	// A process that stays with the job may still write down its end there:
	// then the rest goes when the jobs are listed.
	if err := e.store.root.RemoveAll(trash); err != nil && !errors.Is(err, syscall.ENOTEMPTY) {
		return &DirError{e.Dir(), err}
	}
	return nil
}

// Undo removes what a start that failed has made beside the record: another, in
// another isolation, makes its own. What cannot be removed is left to it to say.
func (e *Entry) Undo() {
	d, err := e.dir.Open(".")
	if err != nil {
		return
	}
	defer d.Close()
	entries, _ := d.ReadDir(-1)
	for _, f := range entries {
		if ofStart(f.Name()) {
			_ = e.dir.Remove(f.Name())
		}
	}
}

// open refuses a link, which os.Root follows within the directory even with
// O_NOFOLLOW.
func (e *Entry) open(name string, flag int) (*os.File, error) {
	if info, err := e.dir.Lstat(name); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ELOOP}
	}
	return e.dir.OpenFile(name, flag, 0o600)
}

func (e *Entry) read(name string, into any) error {
	b, err := e.content(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}

// content is what a file of ours has in it.
func (e *Entry) content(name string) ([]byte, error) {
	f, err := e.open(name, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if err := owned(info); err != nil {
		return nil, err
	}
	// With room for all of it and for its end: mostly two reads.
	b := bytes.NewBuffer(make([]byte, 0, min(info.Size(), maxRecord)+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(f, maxRecord+1)); err != nil {
		return nil, err
	}
	if b.Len() > maxRecord {
		return nil, fmt.Errorf("it has more than %d bytes", maxRecord)
	}
	return b.Bytes(), nil
}

// write replaces a file at once: a reader sees the old content or the new.
// It returns what it wrote.
func (e *Entry) write(name string, v any, durable bool) ([]byte, error) {
	b, err := e.encode(name, v)
	if err != nil {
		return nil, err
	}
	if err := e.replace(name, b, durable); err != nil {
		return nil, &DirError{e.Dir(), err}
	}
	return b, nil
}

func (e *Entry) replace(name string, b []byte, durable bool) (err error) {
	temp := "." + name + "-" + rand.Text()
	f, err := e.dir.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			e.dir.Remove(temp)
		}
	}()
	return e.become(f, temp, name, b, durable)
}

// become writes b to a file, closes it and gives it its name.
func (e *Entry) become(f *os.File, temp, name string, b []byte, durable bool) error {
	_, err := f.Write(b)
	if err == nil && durable {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = e.dir.Rename(temp, name)
	}
	if err == nil && durable {
		err = e.syncDir()
	}
	return err
}

func (e *Entry) syncDir() error {
	d, err := e.dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
