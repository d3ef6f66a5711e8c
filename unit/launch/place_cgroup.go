package launch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// cgroupPlace is a raw unit: a cgroup of our own.
type cgroupPlace struct {
	j *Job
	// unit is open in the process that made it, and in another once it acts. A signal
	// can be forwarded while another goroutine waits for the job: opened reads it.
	mu   sync.Mutex
	unit *cgroup.Unit
	// last is what the cgroup told of itself before it was removed.
	last *look
}

const (
	// clearWait bounds the removal of a cgroup that is empty: right after a
	// kill it can be busy for some milliseconds.
	clearWait = time.Second
	// frozenWait bounds the wait until every process of a job stands.
	frozenWait = 5 * time.Second
)

func (p *cgroupPlace) open() (*cgroup.Unit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unit != nil {
		return p.unit, nil
	}
	h, id := p.j.l.hierarchy(), p.j.rec().Identity
	if h == nil {
		return nil, cgroup.ErrNoHierarchy
	}
	u, err := h.Attach(id.Cgroup, id.CgroupInode)
	if err != nil {
		return nil, err
	}
	p.unit = u
	return u, nil
}

// opened is nil before anything had to be opened.
func (p *cgroupPlace) opened() *cgroup.Unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unit
}

// occupied is open for who wants to act: a cgroup that is gone was removed since
// nobody was left in it.
func (p *cgroupPlace) occupied(op string) (*cgroup.Unit, error) {
	u, err := p.open()
	if errors.Is(err, fs.ErrNotExist) {
		err = &unit.EndedError{Op: op, Name: p.j.rec().Name}
	}
	return u, err
}

func (p *cgroupPlace) look(_ context.Context, lk *look) {
	id := p.j.rec().Identity
	if id.Cgroup == "" || id.PID == 0 {
		return // it is about to be made: that it is not there proves nothing
	}
	if p.j.l.hierarchy() == nil {
		lk.o.Cgroup = verify.Cgroup{State: verify.CgroupUnavailable, Path: id.Cgroup, Err: cgroup.ErrNoHierarchy.Error()}
		return
	}
	if u := p.opened(); u != nil {
		// What is open cannot be hidden by the job.
		lk.o.Cgroup = u.Read()
	} else {
		lk.o.Cgroup = readCgroup(p.j.group(), p.j.rec())
	}
	if lk.o.KeeperGone {
		p.j.l.hierarchy().Unshelter(id.Cgroup)
	}
	if p.last != nil {
		lk.usage, lk.o.Cgroup.OOM = p.last.usage, p.last.o.Cgroup.OOM
		return
	}
	p.measure(lk)
}

// measure reads what the job used.
func (p *cgroupPlace) measure(lk *look) {
	u := p.opened()
	if u == nil {
		return
	}
	lk.usage = u.Usage()
	if oom, err := u.OOM(); err == nil {
		lk.o.Cgroup.OOM = oom.Kills > 0
	}
}

func (p *cgroupPlace) send(_ context.Context, signal int) (string, error) {
	u, err := p.occupied("signal")
	if err != nil {
		return "", err
	}
	sent, err := u.Signal(unix.Signal(signal))
	how := fmt.Sprintf("to %d members", sent.Reached)
	if len(sent.Denied) > 0 {
		how += fmt.Sprintf(", %d refused it", len(sent.Denied))
	}
	return how, err
}

func (p *cgroupPlace) kill(ctx context.Context) string {
	u, err := p.open()
	if err != nil {
		return err.Error()
	}
	bounded, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	way, err := u.Kill(bounded)
	if err != nil {
		return err.Error()
	}
	return string(way)
}

func (p *cgroupPlace) pause(ctx context.Context) error {
	u, err := p.occupied("pause")
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, frozenWait)
	defer cancel()
	return u.Freeze(bounded)
}

func (p *cgroupPlace) resume(ctx context.Context) error {
	if _, err := p.send(ctx, int(unix.SIGCONT)); err != nil {
		return err
	}
	u, err := p.open()
	if err != nil {
		return err
	}
	err = u.ThawAll()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // before Linux 5.2 nothing is frozen
	}
	return err
}

// swept is true when there is no cgroup of a start that was cut off. One that is
// there and empty is removed: its name was free when it was recorded.
func (p *cgroupPlace) swept(ctx context.Context) bool {
	id, h := p.j.rec().Identity, p.j.l.hierarchy()
	if id.Cgroup == "" || h == nil {
		return true // none was made, or was to be
	}
	g, err := h.Lookup(id.Cgroup)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	u, err := h.Attach(id.Cgroup, g.Inode)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer u.Close()
	// Its main process may be about to end.
	bounded, cancel := context.WithTimeout(ctx, clearWait)
	defer cancel()
	return u.Remove(bounded) == nil
}

func (p *cgroupPlace) clear(ctx context.Context) bool {
	u, err := p.open()
	if err != nil || u.Read().State != verify.CgroupEmpty {
		return false
	}
	p.last = &look{}
	p.measure(p.last)
	bounded, cancel := context.WithTimeout(ctx, clearWait)
	defer cancel()
	return u.Remove(bounded) == nil
}

func (p *cgroupPlace) group() *cgroup.Group { return p.j.group() }

func (p *cgroupPlace) close() {
	if u := p.opened(); u != nil {
		u.Close()
	}
}
