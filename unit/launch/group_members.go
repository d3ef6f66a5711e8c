package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// memberLooks bounds how often members looks for them.
const memberLooks = 8

// members are the descendants that have not ended. Where all have that were just
// found, they may have forked meanwhile: then it looks again.
func (p *groupPlace) members() (out []verify.Member) {
	for range memberLooks {
		found := p.descendants()
		for _, d := range found {
			if m, ok := describeProcess(d); ok {
				out = append(out, m)
			}
		}
		if len(out) > 0 || len(found) == 0 {
			break
		}
	}
	return out
}

// describeProcess says what a process is; ok is false when it has ended.
func describeProcess(p keeper.Process) (m verify.Member, ok bool) {
	open, err := proc.Root.Open(p.PID)
	if err != nil {
		return m, false
	}
	defer open.Close()
	s, err := open.Stat()
	if err != nil || s.StartTime != p.StartTime || s.Ended() {
		return m, false
	}
	return open.Member(s), true
}

// descendants are the job's processes as their reaper has them, or once it is
// lost, its keeper. A keeper can have many jobs: of its children those alone
// count that came to it from a lost reaper, and never another job's reaper.
func (p *groupPlace) descendants() []keeper.Process {
	rec := p.k.j.rec()
	if !Ended(rec.Reaper) {
		found, _ := keeper.Descendants(rec.Reaper.PID)
		return found
	}
	if r := p.k.reaper; r != nil {
		if !r.Lost() {
			return nil // nothing was left to it, or that is about to be known
		}
		return r.Adopted()
	}
	if h, _ := p.k.heard(); h != nil && h.Childless || Ended(rec.Keeper) {
		return nil
	}
	return adopted(rec.Keeper.PID)
}

// adopted are the processes that came to the keeper of another process from a
// lost reaper. A keeper's other children are of its own session, as are theirs,
// but for its reapers, which are forks of it.
func adopted(pid int) []keeper.Process {
	session, err := unix.Getsid(pid)
	if err != nil {
		return nil
	}
	self, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return nil
	}
	found, _ := keeper.DescendantsBy(pid, func(child int) bool {
		if s, err := unix.Getsid(child); err != nil || s == session {
			return false
		}
		exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", child))
		return err != nil || !os.SameFile(exe, self)
	})
	return found
}
