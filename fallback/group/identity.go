package group

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
)

// Place is where numbers of processes mean something: a host, one of its
// boots, a pid namespace, and the user who may signal there.
type Place struct {
	// Host is the machine id; empty when the host has none.
	Host string `json:"host"`
	// BootID is the kernel's boot id.
	BootID string `json:"boot_id"`
	// UID is the effective user id of who started the job.
	UID int `json:"uid"`
	// PIDNamespace is the inode of /proc/self/ns/pid.
	PIDNamespace uint64 `json:"pid_namespace"`
}

// Identity is everything by which an owned group is recognised.
type Identity struct {
	Place
	// PID is the main process, which leads the group PGID and the session
	// Session: the three are equal.
	PID     int `json:"pid"`
	PGID    int `json:"pgid"`
	Session int `json:"session"`
	// StartTime is when the main process started, in clock ticks since boot.
	StartTime uint64 `json:"start_time"`
	// Cgroup is where it was started, which a scan excludes strangers by;
	// empty when that is not known, and then it excludes nobody.
	Cgroup string `json:"cgroup,omitempty"`
}

// MismatchError says that what answers to the recorded identity is not what
// was recorded. Nothing was signalled.
type MismatchError struct {
	PGID int
	// Field is what differs: "host", "boot id", "uid", "pid namespace",
	// "start time", "group", "session" or "members".
	Field string
	// Recorded and Found are its values.
	Recorded, Found string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("cannot treat process group %d as the recorded one: the %s is %s, recorded was %s", e.PGID, e.Field, e.Found, e.Recorded)
}

// RefusedError says that a group is not one to look at or to signal, whatever
// is recorded: the caller's own, or a number that kill(2) takes for another.
type RefusedError struct {
	PGID int
	// Reason says why.
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("cannot use process group %d as a job's: %s", e.PGID, e.Reason)
}

// Group is a recorded group, whether it exists or not.
type Group struct {
	id   Identity
	host string
	dir  proc.Dir
}

// Recorded is the group that a record names, seen from the host with this
// machine id.
func Recorded(id Identity, host string) *Group {
	return &Group{id: id, host: host, dir: proc.Root}
}

// Take records the group of the process pid, which must lead its own group
// and session, on the host with this machine id. To be sure that it is the
// process that the caller means, it is a child that was not waited for.
//
// The errors are a *RefusedError when it leads neither or both are the
// caller's, fs.ErrNotExist when it is gone, and proc.ErrOtherNamespace.
func Take(pid int, host string) (*Group, error) { return take(proc.Root, pid, host) }

func take(dir proc.Dir, pid int, host string) (*Group, error) {
	p, err := dir.Open(pid)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	s, err := p.Stat()
	if err != nil {
		return nil, err
	}
	g := &Group{host: host, dir: dir, id: Identity{PID: s.PID, PGID: s.PGID, Session: s.Session, StartTime: s.StartTime}}
	if err := g.refuse(); err != nil {
		return nil, err
	}
	if g.id.Cgroup, err = p.Cgroup(); err != nil {
		return nil, err
	}
	g.id.Place, err = g.here()
	return g, err
}

// Identity is what to record of it.
func (g *Group) Identity() Identity { return g.id }

// here is the caller's place.
func (g *Group) here() (Place, error) {
	boot, err := g.dir.BootID()
	if err != nil {
		return Place{}, err
	}
	ns, err := g.dir.Namespace()
	if err != nil {
		return Place{}, err
	}
	return Place{Host: g.host, BootID: boot, UID: os.Geteuid(), PIDNamespace: ns}, nil
}

// refuse is for what no check of identity can make right.
func (g *Group) refuse() error {
	reason := ""
	own, err := unix.Getsid(0)
	switch id := g.id; {
	case id.PGID <= 1:
		reason = "it is none" // 0 is the caller's own for kill(2), -1 everybody
	case id.PID != id.PGID || id.PID != id.Session:
		reason = fmt.Sprintf("process %d does not lead it and its session %d", id.PID, id.Session)
	case id.PGID == unix.Getpgrp():
		reason = "it is the caller's own"
	case err != nil || id.Session == own:
		reason = "it is in the caller's own session"
	default:
		return nil
	}
	return &RefusedError{PGID: g.id.PGID, Reason: reason}
}

func (g *Group) mismatch(field string, recorded, found any) error {
	return &MismatchError{PGID: g.id.PGID, Field: field, Recorded: fmt.Sprint(recorded), Found: fmt.Sprint(found)}
}

// checkPlace compares where the job was started with where we are.
func (g *Group) checkPlace() error {
	here, err := g.here()
	was := g.id.Place
	switch {
	case err != nil:
		return err
	case here.Host != was.Host:
		return g.mismatch("host", was.Host, here.Host)
	case here.BootID != was.BootID:
		return g.mismatch("boot id", was.BootID, here.BootID)
	case here.UID != was.UID:
		return g.mismatch("uid", was.UID, here.UID)
	case here.PIDNamespace != was.PIDNamespace:
		return g.mismatch("pid namespace", was.PIDNamespace, here.PIDNamespace)
	}
	return nil
}

// Check compares the recorded identity with the present. It is nil while a
// process of the group or the session is there, be it a zombie, and the number
// is still ours. The errors are a *RefusedError, a *MismatchError,
// os.ErrProcessDone when nothing is there, and those of reading /proc.
func (g *Group) Check() error {
	_, err := g.check()
	return err
}

func (g *Group) check() (*census, error) {
	if err := g.refuse(); err != nil {
		return nil, err
	}
	if err := g.checkPlace(); err != nil {
		return nil, err
	}
	c, err := g.count()
	if err != nil {
		return nil, err
	}
	return c, g.checkNumber(c)
}

// checkNumber says whether the number is still ours; see the package's
// documentation.
func (g *Group) checkNumber(c *census) error {
	leader, err := g.dir.Stat(g.id.PID)
	switch {
	case err == nil && leader.StartTime != g.id.StartTime:
		return g.mismatch("start time", g.id.StartTime, leader.StartTime)
	case err == nil && leader.PGID != g.id.PGID:
		return g.mismatch("group", g.id.PGID, leader.PGID)
	case err == nil && leader.Session != g.id.Session:
		return g.mismatch("session", g.id.Session, leader.Session)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for _, s := range c.found {
		switch {
		case s.Session != g.id.Session:
			return g.mismatch("session", g.id.Session, s.Session)
		case s.StartTime < g.id.StartTime:
			return g.mismatch("start time", fmt.Sprintf("no earlier than %d", g.id.StartTime), s.StartTime)
		}
	}
	if len(c.found) > 0 {
		return nil
	}
	if err := unix.Kill(-g.id.PGID, 0); errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot find process group %d: %w", g.id.PGID, os.ErrProcessDone)
	}
	// Something is there and cannot be seen, so nothing says that it is ours.
	return g.mismatch("members", fmt.Sprintf("of session %d", g.id.Session), "not to be seen")
}
