package launch

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

// A job of a manager elsewhere is a service of which nothing is seen but what
// that manager says. No process of ours stays with it and nothing there watches
// this one, so it outlives its call and a connection that breaks. Its manager
// keeps its end, by the slice that holds it, until somebody has read it.

// farWait is how long whoever wants to know or to do something waits for a
// manager elsewhere: to be reached, which is a log-in, and to answer.
const farWait = 20 * time.Second

// farPause is how long a wait leaves a manager elsewhere alone that it could not
// reach: each attempt is a log-in.
const farPause = 5 * time.Second

// outOfReach is true for a job of a manager elsewhere that could not be reached.
// Who looks at many does not try anew for each.
func (j *Job) outOfReach() bool {
	s, ok := j.held.(*service)
	return ok && j.rec().Identity.Far != nil && s.unit == nil
}

// patience is how long to wait for the job's manager, where d is enough for one
// of this machine.
func (j *Job) patience(d time.Duration) time.Duration {
	if j.rec().Identity.Far != nil {
		return max(d, farWait)
	}
	return d
}

// environment is what connecting to a manager depends on.
func (l *Launcher) environment(at seat) dbusclient.Environment {
	env := dbusclient.Environment{Getenv: l.cfg.Getenv, UID: l.cfg.UID}
	if !at.remote.Named() {
		return env
	}
	env.Remote = at.remote
	ssh := l.cfg.Getenv("SYSTEMD_SSH")
	if ssh == "" {
		ssh = "ssh"
	}
	argv, err := at.remote.Bridge(at.manager, ssh, fmt.Sprint(l.cfg.UID))
	env.Bridge = &dbusclient.Bridge{Name: strings.Join(argv, " "), Dial: func(context.Context) (dbusclient.Passage, error) {
		if err != nil {
			return dbusclient.Passage{}, err
		}
		b, err := keeper.NewBridge(argv)
		if err != nil {
			return dbusclient.Passage{}, err
		}
		return dbusclient.Passage{Conn: b.Conn, End: b.End}, nil
	}}
	return env
}

// farIdentity compares the manager that answers with the recorded one. Of one
// that does not answer nothing is believed anyway.
func (j *Job) farIdentity() verify.Identity {
	was := j.rec().Identity.Far
	u, ok := j.held.(*service)
	if !ok || u.client == nil {
		return verify.Identity{State: verify.IdentitySame}
	}
	switch now := u.client.Far(); {
	case now.MachineID != was.MachineID:
		return verify.Identity{State: verify.IdentityForeign,
			Detail: fmt.Sprintf("the record is of machine id %s, and %s has %s now", was.MachineID, was.Remote, now.MachineID)}
	case j.rec().Identity.Manager == unit.ManagerSystem && now.Began != was.Began:
		// It is the first process there: no other outlives it.
		return verify.Identity{State: verify.IdentityOtherBoot, Detail: fmt.Sprintf("the system manager of %s was started at %s, and now at %s",
			was.Remote, moment(was.Began), moment(now.Began))}
	}
	return verify.Identity{State: verify.IdentitySame}
}

func moment(usec uint64) string { return time.UnixMicro(int64(usec)).UTC().Format(time.RFC3339Nano) }

// launchFar is launch for a manager elsewhere.
func (u *service) launchFar(ctx context.Context, s *unit.Spec, io Stdio) (err error) {
	rec := u.j.rec()
	if u.client, err = u.j.l.client(ctx, seat{s.Manager, s.Remote}); err != nil {
		return err
	}
	if s.Timeout > 0 && stopsClock(s.Leftovers, u.client.Version()) {
		return refusal("timeout", fmt.Sprintf("systemd %d has no clock for what outlives the main process, and nobody else there could stay with it", u.client.Version()))
	}
	far := u.client.Far()
	rec.Identity.Far, rec.Identity.Cgroup = &far, u.client.UnitCgroup(slice(s), rec.Identity.Unit)
	svc, err := farService(u.client, s, rec)
	if err != nil {
		return err
	}
	if err := u.j.entry.Put(rec); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	u.unit, err = u.client.StartService(ctx, svc)
	var unknown *unit.UnknownOutcomeError
	if errors.As(err, &unknown) {
		err = u.recover(ctx, unknown, &handed{})
	}
	if err != nil {
		return err
	}
	io.meanwhile()
	result, err := u.unit.Started(ctx)
	if errors.As(err, &unknown) {
		return err
	}
	if err != nil {
		u.abandon()
		return &unit.UnknownOutcomeError{Op: "the start of " + svc.Unit, Err: err}
	}
	if result != "done" {
		if err := neverRanFar(s, svc.Unit, result, u.unit.ReadStarted(ctx)); err != nil {
			u.abandon()
			return err
		}
	}
	u.fresh, u.started = true, true
	return u.identify(ctx, s)
}

// farService is what a manager elsewhere is asked for: what it can do by itself.
func farService(c *dbusclient.Client, s *unit.Spec, rec *unit.Record) (dbusclient.Service, error) {
	svc := dbusclient.Service{
		Unit: rec.Identity.Unit, Description: s.Description, Slice: slice(s), Output: s.Output,
		Path: s.Command[0], Argv: s.Command, Dir: s.Dir, Environment: []string{unit.JobVariable + "=" + rec.Name},
		Grace: s.Grace, Timeout: s.Timeout, KillSignal: s.KillSignal, Leftovers: s.Leftovers,
		UID: s.UID, GID: s.GID, Nice: s.Nice, IgnoreFailure: s.IgnoreFailure, JobMode: s.JobMode,
		Hold: dbusclient.HoldSlice(rec.Identity.Nonce),
	}
	if svc.Description == "" {
		svc.Description = describe(s.Command)
	}
	if strings.Contains(svc.Path, "/") && !path.IsAbs(svc.Path) {
		return svc, &unit.StartError{Unit: svc.Path, Status: statusNoRun, Detail: "its directory is not known there: a name, or an absolute path, is expected"}
	}
	if !direct(&unit.Spec{Command: s.Command, Dir: s.Dir}, false) {
		return svc, &unit.StartError{Unit: svc.Path, Status: statusNoRun, Detail: "its arguments cannot be carried by systemd: they are too long, or not UTF-8"}
	}
	if err := fits(s.Properties, c); err != nil {
		return svc, err
	}
	var err error
	svc.Properties, err = properties(s)
	return svc, err
}

// neverRanFar is neverRan where the files are not to be seen. Before systemd 256
// a status of systemd's own is not told from the program's, and is taken for
// that: it stands in the report.
func neverRanFar(s *unit.Spec, name, result string, r dbusclient.Reading) error {
	result = untold(result, r)
	if !r.Read || result == "" || r.LoadState == "not-found" && r.InvocationID == "" {
		return nil
	}
	nothing := &unit.StartError{Unit: name, Status: statusNoRun,
		Detail: fmt.Sprintf("the start job ended as %q with result %q and nothing was executed", result, r.Result)}
	code := int(r.ExecMainStatus)
	switch {
	case r.ExecMainCode == 0 && r.MainPID == 0:
		return nothing
	case r.ExecMainCode != 1 || code < firstSystemdStatus || code > lastSystemdStatus:
		return nil
	case r.ManagerVersion < versionHandoff || !r.HandoffAt.IsZero():
		return nil
	}
	nothing.Step, nothing.Detail = stepName(code), fmt.Sprintf("systemd of %s gave the status %d", s.Remote, code)
	if code == statusExec {
		nothing.Status, nothing.Detail = statusNoExec, fmt.Sprintf("%s is not there, or cannot be executed, on %s", s.Command[0], s.Remote)
	}
	return nothing
}

// forgottenFar is true for a job elsewhere whose manager answers and does not have
// its unit. One that was not started anew keeps a unit with processes in it
// (systemd 247), which makes that weak evidence that none are left.
func (j *Job) forgottenFar() bool {
	u := j.last.o.Unit
	return j.rec().Identity.Far != nil && u.Read && u.LoadState == "not-found"
}

// letGo stops what holds the unit of a job elsewhere.
func (u *service) letGo(ctx context.Context) error {
	if u.j.rec().Identity.Far == nil {
		return nil
	}
	return u.client.StopUnit(ctx, dbusclient.HoldSlice(u.j.rec().Identity.Nonce))
}

// forwardAgain is the pause before a signal that could not be sent is sent again.
const forwardAgain = 250 * time.Millisecond

// forwardFar sends a signal to a job elsewhere, also by a connection that has to
// be made anew.
func (u *service) forwardFar(ctx context.Context, who unit.Who, signal int) error {
	for {
		err := u.forwardKnown(ctx, who, signal)
		var lost *unit.UnknownOutcomeError
		if err == nil || !dbusclient.Absent(err) && !errors.As(err, &lost) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(forwardAgain):
		}
	}
}
