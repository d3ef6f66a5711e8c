package group

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Bounds are what a scan may cost. It says that it is incomplete when it comes
// to one of them.
type Bounds struct {
	// Processes is how many may be looked at.
	Processes int
	// Bytes is how much may be read of all environments together.
	Bytes int
	// Within is how long it may take, by Now.
	Within time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// DefaultBounds are those of one query.
func DefaultBounds() Bounds {
	return Bounds{Processes: 32768, Bytes: 64 << 20, Within: verify.QueryTimeout}
}

// Scan searches /proc for processes with the marker of the job called name
// that started no earlier than it.
//
// A process whose environment cannot be read is put into Unreadable, unless
// something excludes it that it cannot have changed:
//
//   - it started before the job;
//   - its session is older than the job, because its leader is: a process
//     leaves a session only into one that it makes. Session 0 was made outside
//     of our pid namespace, or is the kernel's;
//   - it is in another cgroup than the job was started in, and not below: only
//     who may write there, a manager or root, moves a process, and then it is
//     no more in this isolation.
//
// Whose user it is excludes nobody: a job can run a set-user-ID program.
// Where processes may be hidden the scan is incomplete; what it found counts
// nevertheless. After the list was gone through, those are looked at that
// came meanwhile: a process that keeps forking ahead of the list is seen then,
// or in one of the next looks.
func (g *Group) Scan(name string, b Bounds) verify.Scan {
	s := &scan{g: g, b: b, marker: unit.JobVariable + "=" + name, seen: map[int]bool{}, sessions: map[int]bool{}}
	if s.b.Now == nil {
		s.b.Now = time.Now
	}
	s.began = s.b.Now()
	if err := s.run(); err != nil {
		s.out.State, s.out.Err = verify.ScanIncomplete, err.Error()
		return s.out
	}
	s.out.State = verify.ScanComplete
	return s.out
}

type scan struct {
	g      *Group
	b      Bounds
	marker string
	began  time.Time
	out    verify.Scan

	seen     map[int]bool // by pid: looked at
	sessions map[int]bool // by number: whether it is older than the job
	bytes    int
}

func (s *scan) run() error {
	if err := s.g.checkPlace(); err != nil {
		return err
	}
	hidden, err := s.g.dir.Hides()
	if err != nil {
		return err
	}
	for range 2 {
		pids, err := s.g.dir.PIDs()
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if s.seen[pid] {
				continue
			}
			if err := s.spent(); err != nil {
				return err
			}
			s.seen[pid] = true
			if err := s.look(pid); err != nil {
				return err
			}
		}
	}
	if hidden != "" {
		return fmt.Errorf("%s is mounted with %s: processes may be hidden", s.g.dir, hidden)
	}
	return nil
}

// spent is an error when a bound is reached.
func (s *scan) spent() error {
	switch {
	case len(s.seen) >= s.b.Processes:
		return fmt.Errorf("there are more than %d processes", s.b.Processes)
	case s.bytes >= s.b.Bytes:
		return fmt.Errorf("their environments have more than %d bytes", s.b.Bytes)
	case s.b.Now().Sub(s.began) > s.b.Within:
		return fmt.Errorf("it took longer than %v, with %d processes looked at", s.b.Within, len(s.seen))
	}
	return nil
}

// look judges one process.
func (s *scan) look(pid int) error {
	p, err := s.g.dir.Open(pid)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return nil // hidepid=noaccess shows that it is there and no more; run says so
	case err != nil: // out of descriptors, for one
		return err
	}
	defer p.Close()
	stat, err := p.Stat()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case stat.Ended(), s.older(stat):
		return nil
	}
	limit := min(proc.MaxEnviron, s.b.Bytes-s.bytes)
	carries, n, err := p.Carries(stat, s.marker, limit)
	s.bytes += n
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case carries:
		s.out.Members = note(s.out.Members, p, stat)
	case err != nil && !s.elsewhere(p):
		s.out.Unreadable = note(s.out.Unreadable, p, stat)
	}
	return nil
}

// older is true for a process that was there before the job, or is of a
// session that was.
func (s *scan) older(stat proc.Stat) bool {
	if stat.StartTime < s.g.id.StartTime || stat.Session == 0 {
		return true
	}
	if stat.Session == s.g.id.Session {
		return false
	}
	older, known := s.sessions[stat.Session]
	if !known {
		// While it has a member the number is nobody else's: a process that
		// has it leads the session. One whose leader is gone is unknown.
		leader, err := s.g.dir.Stat(stat.Session)
		older = err == nil && leader.Session == stat.Session && leader.StartTime < s.g.id.StartTime
		s.sessions[stat.Session] = older
	}
	return older
}

// elsewhere is true for a process in a cgroup that the job was not started in.
func (s *scan) elsewhere(p *proc.Process) bool {
	if s.g.id.Cgroup == "" {
		return false
	}
	cgroup, err := p.Cgroup()
	return err == nil && cgroup != "" && !proc.Below(cgroup, s.g.id.Cgroup)
}

func note(ms []verify.Member, p *proc.Process, stat proc.Stat) []verify.Member {
	if len(ms) == maxMembers {
		return ms
	}
	return append(ms, p.Member(stat))
}
