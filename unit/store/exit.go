package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// exitSchema names the version of exit.json.
const exitSchema = "unitward.exit/1"

// exitRecord is exit.json: systemd's words, unjudged.
type exitRecord struct {
	Schema        string    `json:"schema"`
	InvocationID  string    `json:"invocation_id"`
	ExitCode      string    `json:"exit_code"`
	ExitStatus    string    `json:"exit_status"`
	ServiceResult string    `json:"service_result"`
	OwnerGone     bool      `json:"owner_gone,omitempty"`
	MemoryPeak    *uint64   `json:"memory_peak,omitempty"`
	TasksPeak     *uint64   `json:"tasks_peak,omitempty"`
	Cgroup        string    `json:"cgroup,omitempty"`
	CgroupInode   uint64    `json:"cgroup_inode,omitempty"`
	At            time.Time `json:"at"`
}

// Seen is what a recorder, which runs in the unit, sees of it.
type Seen struct {
	// Used is what the unit used, as far as that is known.
	Used unit.Usage
	// Cgroup is the unit's cgroup below the cgroup root, and CgroupInode the inode
	// number of that directory; empty and 0 where it cannot be seen.
	Cgroup      string
	CgroupInode uint64
}

// RecordExit writes down the exit that systemd hands to ExecStopPost= in the
// environment (systemd.exec(5): $EXIT_CODE, $EXIT_STATUS, $SERVICE_RESULT,
// $INVOCATION_ID), in the job directory dir. gone tells whether the owner
// of a job of lifetime owner has ended.
//
// The recorder is found by its path when the job ends. After an upgrade that is
// another version than the one that started the job, and that one may still
// look: a foreground call, a keeper, a server. So what one version has written
// every other of the same schema reads, the older by the newer and the newer by
// the older. That holds for
//   - the arguments of the hidden verbs (launch.RecordVerb, BecomeVerb,
//     tendVerb, keepVerb), and what a keeper and a handover are told: nothing of
//     it goes, and what is added may be absent;
//   - the names and places of files in a job's directory;
//   - job.json, exit.json and reports: fields are only added. A process that
//     does not know a field drops it when it writes the record anew: what may
//     not be lost needs a new schema, which older versions refuse.
//
// A recorder does without the record: an exit counts also where that cannot be
// read. Where who tended the job has written down how it ended, that stands:
// systemd speaks of who tended.
func RecordExit(dir string, getenv func(string) string, gone func(*unit.Record) bool, seen Seen, now time.Time) error {
	e, err := OpenEntry(dir)
	if err != nil {
		return err
	}
	defer e.Close()
	if r, err := e.Recorded(); err == nil && r != nil && r.InvocationID == getenv("INVOCATION_ID") {
		return nil
	}
	return e.RecordExit(getenv, gone, seen, now)
}

// RecordExit is the function of that name for an entry that is open.
func (e *Entry) RecordExit(getenv func(string) string, gone func(*unit.Record) bool, seen Seen, at time.Time) error {
	ownerGone := false
	if rec, err := e.Record(); err == nil && rec.Lifetime == unit.LifetimeOwner { // else the exit counts all the same
		ownerGone = gone(rec)
	}
	b, err := e.encode(exitFile, &exitRecord{
		Schema: exitSchema, InvocationID: getenv("INVOCATION_ID"), ExitCode: getenv("EXIT_CODE"),
		ExitStatus: getenv("EXIT_STATUS"), ServiceResult: getenv("SERVICE_RESULT"), OwnerGone: ownerGone, At: at,
		MemoryPeak: seen.Used.MemoryPeak, TasksPeak: seen.Used.TasksPeak,
		Cgroup: seen.Cgroup, CgroupInode: seen.CgroupInode,
	})
	if err != nil {
		return err
	}
	if err = e.replace(exitFile, b, true); full(err) {
		err = e.fill(b)
	} else if err == nil {
		e.dir.Remove(exitSpaceFile)
	}
	if err != nil {
		return &DirError{e.Dir(), err}
	}
	return nil
}

// exitSpaceFile has room on the disk for exit.json, which it becomes where there is
// no other.
const exitSpaceFile = "exit.space"

// ReserveExit makes room on the disk for what the job's recorder will write, which
// must not be lost because others, such as the job itself, have filled that. The error
// is a *DirError.
func (e *Entry) ReserveExit() error {
	f, err := e.open(exitSpaceFile, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return &DirError{e.Dir(), err}
	}
	defer f.Close()
	if err := reserve(f); err != nil {
		return &DirError{e.Dir(), err}
	}
	return nil
}

// fill is replace for exit.json on a disk that is full.
func (e *Entry) fill(b []byte) error {
	if len(b) > keptSpace {
		return unix.ENOSPC
	}
	// Not truncated: that would give the room away.
	f, err := e.open(exitSpaceFile, os.O_WRONLY|syscall.O_NONBLOCK)
	if err != nil {
		return err
	}
	return e.become(f, exitSpaceFile, exitFile, b, true)
}

// full is true for an error that says that there is no room on the disk.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// reserve makes room for keptSpace bytes, where the file system can (fallocate(2),
// EOPNOTSUPP).
func reserve(f *os.File) error {
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, keptSpace); full(err) {
		return err
	}
	return nil
}

// OpenEntry opens a job's directory by its path, for a process that was told
// of it. The error is a *DirError.
func OpenEntry(dir string) (*Entry, error) {
	s, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, &DirError{dir, err}
	}
	defer s.Close()
	name := filepath.Base(dir)
	job, err := s.OpenRoot(name)
	if err != nil {
		return nil, &DirError{dir, err}
	}
	return &Entry{store: &Store{dir: filepath.Dir(dir)}, name: name, dir: job}, nil
}

// Recorded reads what the job's recorder wrote. It is nil when it has not
// written. The error is a *CorruptError.
func (e *Entry) Recorded() (*verify.Recorded, error) {
	var x exitRecord
	err := e.read(exitFile, &x)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &CorruptError{filepath.Join(e.Dir(), exitFile), err}
	case x.Schema != exitSchema:
		return nil, &CorruptError{filepath.Join(e.Dir(), exitFile), errors.New("its schema is " + x.Schema)}
	}
	return &verify.Recorded{
		InvocationID: x.InvocationID, ExitCode: x.ExitCode, ExitStatus: x.ExitStatus,
		ServiceResult: x.ServiceResult, OwnerGone: x.OwnerGone, At: x.At,
		MemoryPeak: x.MemoryPeak, TasksPeak: x.TasksPeak,
		Cgroup: x.Cgroup, CgroupInode: x.CgroupInode,
	}, nil
}

// keptFile is what a job's reaper writes: see keeper.ReadRecord.
const keptFile = "kept"

// keptSpace, in bytes, is more than a reaper or a recorder ever writes.
const keptSpace = 4 << 10

// CreateKept makes the file that a job's reaper writes to, anew, with room on the
// disk for it: the exit of a job must not be lost because others have filled that.
// The error is a *DirError.
func (e *Entry) CreateKept() (*os.File, error) {
	f, err := e.open(keptFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, &DirError{e.Dir(), err}
	}
	if err := reserve(f); err != nil {
		f.Close()
		return nil, &DirError{e.Dir(), err}
	}
	return f, nil
}

// OpenKept opens what the job's reaper wrote. It fails with fs.ErrNotExist
// when the job has none, and with a *CorruptError for what is no file of ours.
func (e *Entry) OpenKept() (*os.File, error) {
	f, err := e.open(keptFile, os.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		err = owned(info)
	}
	if err != nil {
		f.Close()
		return nil, &CorruptError{filepath.Join(e.Dir(), keptFile), err}
	}
	return f, nil
}

// OutputAt is when a file of the captured output was written to last; zero
// when there is none.
func (e *Entry) OutputAt() time.Time {
	var at time.Time
	d, err := e.dir.Open(".")
	if err != nil {
		return at
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return at
	}
	for _, f := range entries {
		if !strings.HasPrefix(f.Name(), "stdout") && !strings.HasPrefix(f.Name(), "stderr") {
			continue
		}
		if info, err := f.Info(); err == nil && info.Size() > 0 && info.ModTime().After(at) {
			at = info.ModTime()
		}
	}
	return at
}
