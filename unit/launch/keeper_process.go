package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
)

// keepVerb makes this program the keeper of a job: see runKeeper.
const keepVerb = "_keep"

const (
	// spawnTimeout bounds a start by a keeper of its own.
	spawnTimeout = startTimeout
	// restAfter is when a keeper gives back the memory that its start took:
	// most jobs have ended by then.
	restAfter = 500 * time.Millisecond
	// keeperGCPercent lets little garbage come together in a process that stays
	// with a job: it needs less than a MiB, and the runtime collects none below
	// 4 MiB by itself.
	keeperGCPercent = 20
	// maxOrder bounds what a keeper is told: arguments and environment are at
	// most 6 MiB (execve(2)), and base64 makes a third more of them.
	maxOrder = 16 << 20
)

// order is what a keeper is told, in one piece, at its socket.
type order struct {
	Name string
	// Getenv are the variables by which a manager is found.
	Getenv map[string]string
	Rung   string
	Spec   unit.Spec
	// What JSON cannot carry byte for byte is apart from Spec.
	Command, Env [][]byte
	Path, Dir    []byte
	// Inherits says which of the standard streams are the job's.
	Inherits [3]bool
}

// managerVariables are what the search for a manager depends on.
var managerVariables = [...]string{"DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}

// spawnKeeper starts the job by a keeper that stays when this process goes.
func (j *Job) spawnKeeper(s *unit.Spec, stdio Stdio) error {
	o := order{Name: j.rec().Name, Rung: j.rec().Identity.Isolation, Spec: *s, Getenv: map[string]string{},
		Command: raw(s.Command), Env: raw(s.Env), Path: []byte(s.Path), Dir: []byte(s.Dir)}
	o.Spec.Command, o.Spec.Env, o.Spec.Path, o.Spec.Dir = nil, nil, "", ""
	for _, name := range managerVariables {
		if v := j.l.cfg.Getenv(name); v != "" {
			o.Getenv[name] = v
		}
	}
	var files [3]*os.File
	if s.Stdin == unit.InputInherit {
		files[0] = stdio.In
	}
	if s.Output == unit.OutputInherit {
		files[1], files[2] = stdio.Out, stdio.Err
	}
	for i, f := range files {
		o.Inherits[i] = f != nil
	}
	b, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("cannot tell the keeper: %w", err)
	}
	if len(b) > maxOrder {
		return fmt.Errorf("cannot hand over %d bytes of arguments and environment: at most %d are possible", len(b), maxOrder)
	}
	if err := j.entry.Put(j.rec()); err != nil {
		return err
	}
	control, _, err := keeper.Spawn(j.l.cfg.Self, []string{j.l.cfg.Self, keepVerb, j.l.cfg.StateDir}, files)
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }()
	return j.converse(control, b)
}

// converse tells the keeper what to do and hears what came of it.
func (j *Job) converse(control *net.UnixConn, order []byte) error {
	err := control.SetDeadline(time.Now().Add(spawnTimeout))
	if err == nil {
		_, err = control.Write(order)
	}
	if err == nil {
		err = control.CloseWrite()
	}
	if err != nil {
		return fmt.Errorf("cannot tell the keeper: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(control, maxOrder))
	var a answer
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil {
		// It died, or is stuck: whether the job runs is for its record to say.
		return &unit.UnknownOutcomeError{Op: "the start of job " + j.rec().Name, Err: err}
	}
	if err := a.err(); err != nil {
		return err
	}
	rec, err := j.entry.Record()
	if err != nil {
		return err
	}
	j.record.Store(rec)
	j.held = j.l.openKept(context.Background(), j)
	return nil
}

func raw(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

func texts(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}

// runKeeper is the keeper of one job, from its start to its proven end. What
// to do it reads from the descriptor keeper.ControlFD, which it also answers at.
func runKeeper(stateDir, self string, uid int) error {
	control := os.NewFile(keeper.ControlFD, "keeper")
	b, err := io.ReadAll(io.LimitReader(control, maxOrder+1))
	if err != nil {
		return fmt.Errorf("cannot hear what to keep: %w", err)
	}
	var o order
	if err := json.Unmarshal(b, &o); err != nil {
		return fmt.Errorf("cannot understand what to keep: %w", err)
	}
	l, err := New(Config{StateDir: stateDir, Getenv: func(name string) string { return o.Getenv[name] }, UID: uid, Self: self})
	if err == nil {
		defer l.Close()
	}
	var j *Job
	if err == nil {
		j, err = l.keep(&o)
	}
	if said, merr := json.Marshal(tell(err)); merr == nil {
		_, _ = control.Write(said) // who asked may be gone, and the job runs
	}
	control.Close()
	if err != nil {
		return err
	}
	defer j.Close()
	o.Spec, o.Command, o.Env = unit.Spec{}, nil, nil // up to 6 MiB; how a manager is found stays
	debug.SetGCPercent(keeperGCPercent)
	resting := time.AfterFunc(restAfter, keeper.Rest)
	defer resting.Stop()
	return j.attendAlone()
}

// keep starts the job of an order.
func (l *Launcher) keep(o *order) (*Job, error) {
	entry, rec, err := l.store.Load(o.Name)
	if err != nil {
		return nil, err
	}
	j := newJob(l, rec, entry)
	s := o.Spec
	s.Command, s.Env, s.Path, s.Dir = texts(o.Command), texts(o.Env), string(o.Path), string(o.Dir)
	streams := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i := range streams {
		if !o.Inherits[i] {
			streams[i] = nil
		}
	}
	// Once the job runs nothing may fail: it would run with nobody to keep it.
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		j.Close()
		return nil, err
	}
	defer null.Close()
	if err := j.launchKept(context.Background(), &s, Stdio{In: streams[0], Out: streams[1], Err: streams[2]}); err != nil {
		j.Close()
		return nil, err
	}
	return j, leaveStreams(null) // they are the job's
}

// attendAlone stays with the job until its end is proven. A signal to end is
// one to end the job.
func (j *Job) attendAlone() error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	by := bySignal
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	if j.rec().OwnerProcess.PID != 0 || j.rec().OwnerUnit.Unit != "" {
		stop := j.watchOwner(watched, cancel)
		defer stop()
	}
	rep, err := j.Await(watched, FactSettled)
	if err == nil && !rep.Confirmed {
		rep, err = j.Wait(watched, FactSettled) // what is kept, or cannot be ended
	}
	if watched.Err() == nil {
		return err
	}
	grace := j.rec().Grace
	if ctx.Err() == nil {
		by = byOwner
	}
	_, err = j.stop(context.Background(), grace, by)
	return err
}

// watchOwner calls end when the job's owner ends, unless the job was detached
// by then: it then no longer ends with anybody.
func (j *Job) watchOwner(ctx context.Context, end func()) (stop func()) {
	judge := func() {
		rec, err := j.entry.Record()
		if err != nil || rec.Lifetime != unit.LifetimeDetached {
			end()
			return
		}
		if k, ok := j.held.(*kept); ok {
			_ = k.reaper.Stay() // it fails where nothing is left to stay with
		}
	}
	var ended <-chan struct{}
	var unwatch func()
	if h := j.l.hierarchy(); j.rec().OwnerUnit.Unit != "" && h != nil {
		ended, unwatch = watchUnit(ownerGroup(h, j.rec()))
	} else {
		ended, unwatch = watchProcess(j.rec().OwnerProcess)
	}
	go func() {
		select {
		case <-ended:
			judge()
		case <-ctx.Done():
		}
	}()
	return unwatch
}
