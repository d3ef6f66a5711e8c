package proc

import (
	"slices"
	"time"

	"github.com/unitward/unitward/verify"
)

// Mark is what connects a process with a job that it may have left.
type Mark struct {
	// Assignment is the NAME=VALUE that the job's processes were started with.
	Assignment string
	// Since is when the job started, in clock ticks since boot: nothing that is
	// older is of it.
	Since uint64
	// Cgroup is the job's own. What is there, or below, has not left it.
	Cgroup string
	// PID is the job's main process: what comes of it mostly has a number soon
	// after it, and is looked at first.
	PID int
}

const (
	// maxMarked bounds how many are described, maxSearched how many processes
	// are looked at for them.
	maxMarked   = 64
	maxSearched = 32768
	// environLimit bounds what is read of one environment.
	environLimit = 256 << 10
)

// Left lists processes that carry the mark and are in another cgroup than the
// job's: work that was handed to another manager, or moved there. It is for
// people: anybody can set a mark or drop it, so what is found authorises
// nothing and an empty list proves nothing. The search ends after a time.
func (d Dir) Left(m Mark, within time.Duration) []verify.Member {
	pids, err := d.PIDs()
	if err != nil {
		return nil
	}
	slices.Sort(pids)
	first, _ := slices.BinarySearch(pids, m.PID)
	pids = slices.Concat(pids[first:], pids[:first])
	var found []verify.Member
	for began, i := time.Now(), 0; i < min(len(pids), maxSearched) && len(found) < maxMarked && time.Since(began) < within; i++ {
		if left, ok := d.left(pids[i], m); ok {
			found = append(found, left)
		}
	}
	return found
}

func (d Dir) left(pid int, m Mark) (left verify.Member, ok bool) {
	p, err := d.Open(pid)
	if err != nil {
		return left, false
	}
	defer p.Close()
	s, err := p.Stat()
	if err != nil || s.Ended() || s.StartTime < m.Since {
		return left, false
	}
	cgroup, err := p.Cgroup()
	if err != nil || cgroup == "" || Below(cgroup, m.Cgroup) {
		return left, false
	}
	if carries, _, err := p.Carries(s, m.Assignment, environLimit); err != nil || !carries {
		return left, false
	}
	left = p.Member(s)
	left.Cgroup = cgroup
	return left, true
}

// Outside describes the process that has the number pid now where it is in
// another cgroup than one, or below it; ok is false where it is not, or has
// ended.
func (d Dir) Outside(pid int, cgroup string) (m verify.Member, ok bool) {
	p, err := d.Open(pid)
	if err != nil {
		return m, false
	}
	defer p.Close()
	s, err := p.Stat()
	if err != nil || s.Ended() {
		return m, false
	}
	there, err := p.Cgroup()
	if err != nil || there == "" || Below(there, cgroup) {
		return m, false
	}
	m = p.Member(s)
	m.Cgroup = there
	return m, true
}
