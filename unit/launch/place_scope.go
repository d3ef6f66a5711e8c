package launch

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// scopePlace is a scope: a cgroup of systemd's around processes of ours.
type scopePlace struct {
	j *Job
	// unit is nil while the manager cannot be reached; unreached then says
	// why.
	unit      *dbusclient.Unit
	unreached string
	// made is the manager that has taken this process's request for it; nil is none.
	made *dbusclient.Client
	// memory and tasks are the most that a look has seen; nil is not known.
	memory, tasks *uint64
}

func (l *Launcher) openScope(ctx context.Context, j *Job) *scopePlace {
	p := &scopePlace{j: j}
	c, err := l.client(ctx, seatOf(&j.rec().Identity))
	if err == nil {
		p.unit, err = c.Open(ctx, j.rec().Identity.Unit)
	}
	if err != nil {
		p.unreached = err.Error()
	}
	return p
}

// look: a scope's own word is no evidence of an end; it tells why the manager
// ended it.
func (p *scopePlace) look(ctx context.Context, lk *look) {
	id := p.j.rec().Identity
	lk.o.Unit.Err = p.unreached
	if p.unit != nil {
		lk.reading = p.unit.ReadScope(ctx)
		lk.o.Unit = lk.reading.Unit
	}
	switch {
	case id.Cgroup == "":
	case p.j.hierarchy() == nil:
		lk.o.Cgroup = verify.Cgroup{State: verify.CgroupUnavailable, Path: id.Cgroup, Err: cgroup.ErrNoHierarchy.Error()}
	default:
		lk.o.Cgroup = readCgroup(p.j.group(), p.j.rec())
		lk.addPeaks(p.j.group())
		// systemd removes the cgroup at once when the last process has ended.
		lk.addPeak(p.memory, p.tasks)
		p.memory, p.tasks = lk.usage.MemoryPeak, lk.usage.TasksPeak
	}
}

// askWhy asks a manager that had no time to answer a look why it ended a scope, where
// nothing else says so: its time can have been up, or its memory out. Of a kept job
// that is no part of the proof, so that nobody has waited for it.
func (k *kept) askWhy(ctx context.Context, lk *look) {
	p, ok := k.at.(*scopePlace)
	if !ok || p.unit == nil || lk.o.Unit.Read || k.j.rec().Stop.By != nil || lk.v.Exit.Code == 0 && lk.v.Exit.Signal == 0 {
		return
	}
	at := seatOf(&k.j.rec().Identity)
	if k.j.l.silent(at) {
		return
	}
	asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), actWait)
	defer cancel()
	if r := p.unit.ReadScope(asked); r.Read {
		lk.reading, lk.o.Unit = r, r.Unit
	} else if asked.Err() != nil {
		k.j.l.noteSilence(at)
	}
}

// ours fails unless the unit is the recorded one. lost is true where the manager
// knows no unit of the name, or nobody can ask it: what is in the recorded cgroup is
// the job's all the same, and none but we can reach it.
func (p *scopePlace) ours(ctx context.Context) (lost bool, err error) {
	if p.unit == nil {
		return true, errors.New(p.unreached)
	}
	r := p.unit.ReadScope(ctx)
	switch id := p.j.rec().Identity; {
	case !r.Read:
		return true, errors.New(r.Err)
	case r.InvocationID == "" && p.j.hierarchy() != nil && p.j.group().Glance().State == verify.CgroupPopulated:
		return true, &unreachedError{"signal", p.j.rec().Name, "its manager has lost the unit, and processes are left in its cgroup"}
	case r.InvocationID == "":
		return false, &unit.EndedError{Op: "signal", Name: p.j.rec().Name}
	case r.InvocationID != id.InvocationID:
		return false, &unit.IdentityError{Name: p.j.rec().Name, Detail: "InvocationID is " + r.InvocationID + ", recorded was " + id.InvocationID}
	}
	return false, nil
}

// send goes by the manager, and past one that does not answer: that of systemd 247
// answers nobody while it ends a fork bomb, which for its part has no end.
func (p *scopePlace) send(ctx context.Context, signal int) (string, error) {
	lost, err := p.ours(ctx)
	if err == nil {
		if how, done := p.j.killInstead(ctx, signal, p.unit.Version()); done {
			return how, nil
		}
		err = p.unit.Kill(ctx, unit.WhoAll, signal)
		lost = silent(err)
	}
	if lost {
		return sentAlone, p.j.signalMembers(signal)
	}
	return killedByManager, err
}

// silent is true for an error that says nothing of the unit: nobody answered.
func silent(err error) bool {
	var unknown *unit.UnknownOutcomeError
	var none *unit.NoManagerError
	return errors.As(err, &unknown) || errors.As(err, &none)
}

func (p *scopePlace) kill(ctx context.Context) string {
	if how, err := p.j.killMembers(ctx); err == nil {
		return how
	}
	how, err := p.send(ctx, sigKill)
	if err != nil {
		return err.Error()
	}
	return how
}

func (p *scopePlace) pause(ctx context.Context) error {
	if _, err := p.ours(ctx); err != nil {
		return err
	}
	return p.j.freezeAlone(ctx, p.unit.Freeze(ctx))
}

func (p *scopePlace) resume(ctx context.Context) error {
	if _, err := p.send(ctx, int(unix.SIGCONT)); err != nil {
		return err
	}
	if p.unit == nil {
		return nil // it was thawed with the signal
	}
	err := p.j.thawAlone(p.unit.Thaw(ctx))
	var ended *unit.EndedError
	if errors.As(err, &ended) || silent(err) {
		return nil
	}
	return err
}

// clear: systemd removes the cgroup.
func (p *scopePlace) clear(context.Context) bool { return false }

func (p *scopePlace) group() *cgroup.Group { return p.j.group() }

func (p *scopePlace) close() {
	if p.unit != nil {
		p.unit.Close()
	}
}
