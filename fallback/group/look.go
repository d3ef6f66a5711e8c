package group

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// Look looks at the group and its session once. It does not scan for processes
// that left both: Scan does, and its result belongs into Group.Scan.
//
// A place that is not the recorded one makes it verify.GroupUnavailable; that
// the number is another's by now makes it verify.GroupGone, because it could
// not be while our group had a member.
func (g *Group) Look() verify.Group {
	out := verify.Group{PGID: g.id.PGID}
	unavailable := func(err error) verify.Group {
		out.State, out.Err, out.Members = verify.GroupUnavailable, err.Error(), nil
		return out
	}
	// Signal 0 comes before the census: a group that is gone stays gone (one
	// can only be joined while it has members), a session likewise.
	if err := g.refuse(); err != nil {
		return unavailable(err)
	}
	answer := unix.Kill(-g.id.PGID, 0)
	c, err := g.check()
	var mismatch *MismatchError
	switch {
	case err == nil:
		out.Members = c.members
	case errors.Is(err, os.ErrProcessDone):
		out.State = verify.GroupGone
		return out
	case errors.As(err, &mismatch) && mismatch.ofNumber():
		if mismatch.Field == "members" {
			break // there is something, and signal 0 says what it can
		}
		out.State = verify.GroupGone
		return out
	default:
		return unavailable(err)
	}
	switch {
	case errors.Is(answer, unix.EPERM):
		out.State = verify.GroupForeign
	case answer == nil, len(out.Members) > 0: // the group, or the rest of its session
		out.State = verify.GroupPopulated
	case errors.Is(answer, unix.ESRCH):
		out.State = verify.GroupGone
	default:
		return unavailable(fmt.Errorf("cannot send signal 0 to group %d: %w", g.id.PGID, answer))
	}
	return out
}

// Foreign reports whether signal 0 to the group returns EPERM: each process in it
// is another user's. The number is the group's as long as the caller sees one.
func (g *Group) Foreign() bool { return errors.Is(unix.Kill(-g.id.PGID, 0), unix.EPERM) }

// ofNumber is true when the place is the recorded one and the number is not
// the recorded group's.
func (e *MismatchError) ofNumber() bool {
	switch e.Field {
	case "start time", "group", "session", "members":
		return true
	}
	return false
}
