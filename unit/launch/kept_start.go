package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/fallback/proc"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// launchKept starts a job with this process as its keeper. Nothing of the
// command exists before its main process is where it belongs and the record
// says who it is.
func (j *Job) launchKept(ctx context.Context, s *unit.Spec, io Stdio) (err error) {
	k := &kept{j: j, wake: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			k.undo()
		}
	}()
	j.rec().Keeper = j.l.self
	cmd, opened, err := j.command(s, io)
	defer func() {
		for _, f := range opened {
			f.Close()
		}
	}()
	if err != nil {
		return err
	}
	var out *pipes
	if s.Output == unit.OutputCapture {
		if out, err = newPipes(); err != nil {
			return err
		}
		defer out.close()
		cmd.Stdout, cmd.Stderr, cmd.ReadOut, cmd.ReadErr = out.out[1], out.err[1], out.out[0], out.err[0]
	}
	if s.Window != nil {
		var slave *os.File
		if k.holder, slave, err = holdTerminal(j.entry, *s.Window, out); err != nil {
			return err
		}
		giveTerminal(s, slave)
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ReadOut, cmd.ReadErr = slave, slave, slave, nil, nil
	}
	subreaper, err := j.l.subreaper()
	if err != nil {
		return err
	}
	if err := k.prepare(s, cmd); err != nil {
		return err
	}
	if k.reaper, err = subreaper.Fork(cmd); err != nil {
		return k.forkFailed(s, err)
	}
	k.reaper.Wake(k.wake)
	if out != nil {
		var rest func()
		if j.rec().Launcher != j.l.self {
			rest = keeper.Rest // this process does nothing else
		}
		if k.capture, err = out.capture(j.entry, s.OutputMax, capture.Policy(s.OnOutputMax), rest); err != nil {
			return err
		}
	}
	if err := k.execute(ctx, s); err != nil {
		return err
	}
	j.held = k
	return nil
}

// command resolves what the main process becomes. What it opened is to be
// closed once that is forked.
func (j *Job) command(s *unit.Spec, io Stdio) (*keeper.Command, []*os.File, error) {
	c := &keeper.Command{
		Path: s.Path, Argv: s.Command, Dir: s.Dir,
		Umask: s.Umask, Rlimits: s.Rlimits[:], Nice: s.Nice, Finishes: s.Leftovers == unit.LeftoversKill,
	}
	if s.Lifetime == unit.LifetimeDetached {
		c.OnHangup = keeper.HangupStay
	}
	if s.Stdin == unit.InputInherit {
		c.Stdin = io.In
	}
	c.Terminal = s.PTY
	if s.Window == nil {
		giveTerminal(s, io.In)
	}
	var opened []*os.File
	switch s.Output {
	case unit.OutputInherit:
		c.Stdout, c.Stderr = io.Out, io.Err
	case unit.OutputJournal:
		journal, err := openJournal(j.rec().Name)
		if err != nil {
			return nil, nil, err
		}
		c.Stdout, c.Stderr, opened = journal, journal, append(opened, journal)
	}
	record, err := j.entry.CreateKept()
	if err != nil {
		return nil, opened, err
	}
	c.Record, opened = record, append(opened, record)
	if _, own := lookup(s.Env, "INVOCATION_ID"); j.rec().Identity.Isolation == verify.IsolationScope && !own {
		c.Told = "INVOCATION_ID" // as systemd-run --scope has it
	}
	var who *user.User
	c.Credential, who, err = credential(s)
	c.Env = append(slices.Clip(environAs(s, who)), unit.JobVariable+"="+j.rec().Name)
	return c, opened, err
}

// prepare makes the place of the main process, as far as it can be made
// before it.
func (k *kept) prepare(s *unit.Spec, cmd *keeper.Command) error {
	id := &k.j.rec().Identity
	switch id.Isolation {
	case verify.IsolationCgroup:
		return k.prepareCgroup(s, cmd)
	case verify.IsolationScope:
		if strings.Contains(k.j.rec().Name, "@") {
			return &unit.IsolationError{Isolation: verify.IsolationScope, Refused: []unit.Refusal{{What: "the name " + k.j.rec().Name, Why: "a scope has no instances"}}}
		}
		h := k.j.l.hierarchy()
		if h == nil {
			// No manager's word says that a scope is empty.
			return &unit.IsolationError{Isolation: verify.IsolationScope, Refused: []unit.Refusal{{What: "proof of an empty scope", Why: cgroup.ErrNoHierarchy.Error()}}}
		}
		k.at, cmd.Scope = &scopePlace{j: k.j}, id.Unit
		if parent, err := h.FindParent(""); err == nil {
			k.takeShelter(parent)
		}
	case verify.IsolationGroup:
		k.at = &groupPlace{k: k}
		id.Cgroup = ownCgroup()
		k.j.rec().Limits = notApplied(s.Limits, "a process group holds no limits")
		if s.RequireLimits && len(s.Limits) > 0 {
			return &unit.LimitsError{Limit: k.j.rec().Limits[0]}
		}
	}
	return nil
}

func (k *kept) prepareCgroup(s *unit.Spec, cmd *keeper.Command) error {
	limits, err := rawLimits(s.Limits)
	if err != nil {
		return err
	}
	h := k.j.l.hierarchy()
	if h == nil {
		return &unit.IsolationError{Isolation: verify.IsolationCgroup, Refused: []unit.Refusal{{What: "cgroup v2", Why: cgroup.ErrNoHierarchy.Error()}}}
	}
	parent, err := k.j.l.findParent(h, s.CgroupParent)
	if err != nil {
		return err
	}
	k.takeShelter(parent)
	// Known before it is there: a start that is cut off leaves a record that
	// leads to it.
	id := &k.j.rec().Identity
	if id.Cgroup, err = parent.Vacant(k.j.rec().Name); err != nil {
		return err
	}
	if err := k.put(); err != nil {
		return err
	}
	u, err := parent.Create(k.j.rec().Name)
	if err != nil {
		return err
	}
	k.at = &cgroupPlace{j: k.j, unit: u}
	id.CgroupInode = u.Inode
	found := u.SetLimits(limits)
	for i := range found {
		for _, asked := range s.Limits {
			if asked.Name == found[i].Name {
				found[i].Asked = asked.Value
			}
		}
		if !found[i].Applied && s.RequireLimits {
			return &unit.LimitsError{Limit: found[i]}
		}
	}
	k.j.rec().Limits = found
	cmd.Cgroup, cmd.CgroupProcs, cmd.CgroupKill = u.Dir(), u.Procs(), u.KillFile()
	cmd.CgroupHolder, cmd.CgroupName = u.Holder()
	cmd.CgroupInode = u.Inode
	return nil
}

// takeShelter lets a keeper of its own outlive the cgroup of its launcher, where
// it can.
func (k *kept) takeShelter(parent *cgroup.Parent) {
	if k.j.rec().Launcher != k.j.l.self {
		k.shelter, _ = parent.Shelter(k.j.rec().Name) // it stays where it is, else
	}
}

// execute records who the job is and lets its main process become the
// command.
func (k *kept) execute(ctx context.Context, s *unit.Spec) error {
	rec := k.j.rec()
	id := &rec.Identity
	id.PID = k.reaper.MainPID()
	var err error
	if id.StartTime, err = keeper.StartTime(id.PID); err != nil {
		return fmt.Errorf("cannot start %s: its main process ended before it was told to begin: %w", rec.Name, err)
	}
	rec.Reaper = unit.Process{PID: k.reaper.PID()}
	rec.Reaper.StartTime, _ = keeper.StartTime(rec.Reaper.PID) // gone already: then it is recognised by nobody
	if p, ok := k.at.(*scopePlace); ok {
		if err := p.start(ctx, s); err != nil {
			return err
		}
	}
	started := now()
	rec.StartedAt = &started
	if err := k.put(); err != nil {
		return err
	}
	if err := k.reaper.Execute(id.InvocationID); err != nil {
		return becomeFailed(rec.Name, s, err)
	}
	return nil
}

// errGivenUp says that somebody found the start without its launcher and
// settled it as one of which nothing ran. So it has to be.
var errGivenUp = errors.New("its launcher ended before the command was executed, and the job was settled as not started")

// put writes the record, before anything that it is to lead to. A keeper of its
// own may be known to nobody yet, while its launcher is gone.
func (k *kept) put() error {
	j := k.j
	if j.rec().Launcher == j.l.self {
		return j.entry.Put(j.rec())
	}
	rec, err := j.entry.Update(false, func(rec *unit.Record) {
		if rec.Sealed == nil {
			*rec = *j.rec()
		}
	})
	if err == nil && rec.Sealed != nil {
		err = fmt.Errorf("cannot start %s: %w", rec.Name, errGivenUp)
	}
	return err
}

// undo ends and removes what a start that failed has made.
func (k *kept) undo() {
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	if k.reaper != nil {
		k.reaper.End()
		select {
		case <-k.reaper.Childless():
		case <-ctx.Done():
		}
	}
	if k.holder != nil {
		k.holder.Close()
	}
	switch p := k.at.(type) {
	case *cgroupPlace:
		_ = p.unit.Remove(ctx) // it stands empty then, and the error of the start is the one that counts
	case *scopePlace:
		if p.made != nil {
			// Its process was ended in whatever moment the manager was in.
			collect(p.made, k.j.rec().Identity.Unit)
		}
	}
	if k.capture != nil {
		k.capture.Close()
	}
	k.j.entry.Undo()
	if k.at != nil {
		k.at.close()
	}
	k.leave()
}

// forkFailed turns the error of a fork into that of the isolation or of the
// command.
func (k *kept) forkFailed(s *unit.Spec, err error) error {
	var join *keeper.JoinError
	if errors.As(err, &join) {
		return &unit.IsolationError{Isolation: k.j.rec().Identity.Isolation, Refused: []unit.Refusal{{What: k.j.rec().Identity.Cgroup, Why: err.Error()}}}
	}
	return becomeFailed(k.j.rec().Name, s, err)
}

// ownCgroup is where this process is; empty when that is not known.
func ownCgroup() string {
	path, err := cgroupOf(os.Getpid())
	if err != nil {
		return ""
	}
	return path
}

// cgroupOf is the cgroup of a process, below the cgroup root.
func cgroupOf(pid int) (string, error) {
	p, err := proc.Root.Open(pid)
	if err != nil {
		return "", err
	}
	defer p.Close()
	return p.Cgroup()
}
