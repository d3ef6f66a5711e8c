package keeper

import (
	"fmt"
	"os"
	"syscall"

	"github.com/unitward/unitward/unit"
)

// Command is a process as it is to become, everything resolved, and what its
// reaper is to do for it. Files are only read, and can be closed once
// Subreaper.Fork has returned.
type Command struct {
	// Path is the executable; it is not searched for.
	Path string
	// Argv is the argument vector; Env is the whole environment as KEY=VALUE.
	// Both arrive byte for byte.
	Argv, Env []string
	// Dir is the working directory; empty is this process's.
	Dir string
	// Umask is the file mode creation mask.
	Umask uint32
	// Rlimits are the resource limits in the order of unit.RlimitNames, each
	// lowered to the hard limit of this process where it must be. Those that
	// are missing at the end stay as they are, but for RLIMIT_NOFILE, which
	// is set to what this process was started with.
	Rlimits []unit.Rlimit
	// Nice is the scheduling priority from -20 to 19; nil is this process's.
	Nice *int
	// Credential is the user to become; nil is this process's.
	Credential *Credential
	// Stdin, Stdout and Stderr are the standard streams; nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// ReadOut and ReadErr are the ends to read from of the pipes that Stdout and
	// Stderr are: once this process is gone, or Reaper.Drain was called, the reaper
	// reads and drops what comes there, as its writers would else be ended by
	// SIGPIPE. nil are no such pipes.
	ReadOut, ReadErr *os.File
	// Passed is how many descriptors of this process, from 3 on, are the main
	// process's at the same numbers (sd_listen_fds(3)).
	Passed int
	// OwnPID are variables, at most two, that get the main process's own number;
	// Told is one that gets what Reaper.Execute is told. They are in Env no more
	// than once; an empty Told is none.
	OwnPID []string
	Told   string
	// Terminal makes Stdin, which must be a terminal of nobody else's session,
	// the main process's controlling one.
	Terminal bool

	// Cgroup is the directory of the cgroup v2 that the main process is born
	// in (clone3 with CLONE_INTO_CGROUP, Linux 5.7); nil is no cgroup, unless
	// CgroupProcs is given.
	Cgroup *os.File
	// CgroupProcs is the cgroup.procs of the same cgroup, open for writing:
	// where a process cannot be born in a cgroup, or dies at birth, it joins
	// before anything else. nil makes either an error.
	CgroupProcs *os.File
	// CgroupKill is the cgroup.kill of the same cgroup (Linux 5.14), open for
	// writing, which gets "1" when everything is to end; nil is signals to the
	// processes alone. The reaper must not be in that cgroup.
	CgroupKill *os.File
	// CgroupHolder is the directory that has the cgroup, under CgroupName and
	// with CgroupInode: when nothing of the job is left and this process is
	// gone, the reaper removes the cgroup there. nil leaves that to others.
	CgroupHolder *os.File
	CgroupName   string
	CgroupInode  uint64
	// Scope is the name of the scope that a manager will be asked to put the main
	// process into before Execute: when this process ends first, the main process
	// stays until it is there, at most for some seconds, since a scope that is given
	// a process which has just ended comes up empty, and stays. Empty is none.
	Scope string
	// KeeperProcs is the cgroup.procs, open for writing, of a cgroup that the
	// reaper moves to before anything else; nil leaves it where it is.
	KeeperProcs *os.File
	// Record gets a line when the main process ends and one when nothing is
	// left, so that they are known when nobody was there to hear of them; nil
	// is no record. Who writes them is the reaper, and this process once that
	// is lost. It must be open with O_APPEND. ReadRecord reads it.
	Record *os.File
	// OnHangup says what happens when this process, or the Reaper's last
	// holder, is gone.
	OnHangup Hangup
	// Finishes makes HangupStay end with SIGKILL what outlives the main process,
	// once this process is gone, which would have ended it in a better way.
	Finishes bool
	// Deaf makes SIGTERM nothing to the reaper, and its death nothing to the main
	// process: for one in the job's own unit, whose manager sends signals to every
	// process there, and ends what is left when the keeper is gone.
	Deaf bool

	// scan makes the reaper look for its children among all processes, as
	// where the kernel has no list of them.
	scan bool
}

// Credential is a user with its groups, as setuid(2), setgid(2) and
// setgroups(2) have them.
type Credential struct {
	UID, GID uint32
	// Groups are the supplementary groups; nil is none.
	Groups []uint32
}

// Hangup is what a reaper does when its keeper is gone.
type Hangup uint32

const (
	// HangupEnd ends every process of the job with SIGKILL. The main process
	// also ends with its reaper, unless that is Deaf or the exec gave it another
	// identity (PR_SET_PDEATHSIG).
	HangupEnd Hangup = iota
	// HangupStay lets the job run; the reaper goes on reaping, and ends after
	// the job's last process.
	HangupStay
)

// JoinError says that a main process could not be put into its cgroup, or its
// reaper into that of the keeper. Nothing was executed.
type JoinError struct {
	// Op is what failed: clone3 into the cgroup, a write to cgroup.procs, a
	// write to the keeper's cgroup.procs, or the birth itself, when the
	// process was killed before it could say that it is there.
	Op string
	// Errno is the kernel's answer: ENOENT for a cgroup that was removed,
	// EBADF for a directory that is none, EACCES where the common ancestor may
	// not be written, EBUSY for one with controllers enabled, EOPNOTSUPP for
	// one that is not of type domain. 0 for the birth.
	Errno syscall.Errno
}

func (e *JoinError) Error() string {
	if e.Errno == 0 {
		return fmt.Sprintf("cannot put the main process into its cgroup: %s: it was killed", e.Op)
	}
	return fmt.Sprintf("cannot put the main process into its cgroup: %s: %v", e.Op, e.Errno)
}

// Unwrap returns the kernel's answer, nil when there is none.
func (e *JoinError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}
