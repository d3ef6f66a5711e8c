package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/terminal"
	"github.com/unitward/unitward/verify"
)

// begun is a job that run or start has started.
type begun struct {
	l   *launch.Launcher
	job *launch.Job
	sig *signals
	// tty is nil for a job without a terminal of its own.
	tty *console
}

func (b *begun) close() {
	b.tty.close()
	if b.l != nil && b.job != nil {
		b.l.Tidy()
	}
	// The connection goes first: it takes every match and reference with it,
	// which nobody need ask for one by one.
	if b.l != nil {
		b.l.Close()
	}
	if b.job != nil {
		b.job.Close()
	}
	// The signals stay caught: this process ends, and to give them back takes
	// longer than that.
}

// begin starts a job. Where nothing of it could run, sink gets a report that
// says so. keys leave a job that has a terminal. The caller closes what it
// returns.
func (a *app) begin(s *unit.Spec, o *jobOptions, sink reportSink, keys *terminal.Keys) (*begun, error) {
	b := &begun{}
	err := a.tryBegin(b, s, o, keys)
	if err == nil {
		a.warn(b.job.Unsaved())
		return b, nil
	}
	if werr := sink.failure(b.l, s, err); werr != nil {
		a.warn(werr)
	}
	b.close()
	return nil, err
}

func (a *app) tryBegin(b *begun, s *unit.Spec, o *jobOptions, keys *terminal.Keys) (err error) {
	if err := o.locate(s); err != nil {
		return err
	}
	if b.l, err = a.launcher(); err != nil {
		return err
	}
	io := launch.Stdio{In: a.In, Out: a.Out, Err: a.Err}
	if s.PTY && s.Window == nil {
		if b.tty, io, err = openConsole(a.streams, keys); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.l.Connect(ctx, s)
	b.sig = catchSignals(a.unseen, a.streams)
	b.sig.starting(ctx, cancel)
	io.Meanwhile = sync.OnceFunc(func() { b.sig.catchAll(b.tty != nil) })
	b.job, err = b.l.Start(ctx, s, io)
	if err == nil {
		return nil
	}
	var unknown *unit.UnknownOutcomeError
	var lost *unit.RecordLostError
	if n := b.sig.first(); n != 0 && !errors.As(err, &unknown) && !errors.As(err, &lost) {
		return &abortedError{n}
	}
	return err // of the first two it may have run, whatever came in between
}

// abortedError is a signal that came before the job was there.
type abortedError struct{ signal int }

func (e *abortedError) Error() string {
	return fmt.Sprintf("SIG%s came before it was started", verify.SignalName(e.signal))
}

// failure writes the report of a start that failed with err. l is nil where it
// came to nothing before.
func (s reportSink) failure(l *launch.Launcher, spec *unit.Spec, err error) error {
	if s.f == nil {
		return nil
	}
	var lost *unit.RecordLostError
	if errors.As(err, &lost) {
		return nil // it ran, and there is nothing left to tell of it
	}
	var unknown *unit.UnknownOutcomeError
	if !errors.As(err, &unknown) {
		return s.Write(launch.NotStarted(spec, os.Geteuid(), err))
	}
	// The job may run, and has a record.
	ctx := context.Background()
	j, err := l.Open(ctx, unknown.Job)
	if err != nil {
		return err
	}
	defer j.Close()
	rep, err := j.Look(ctx)
	if err != nil && !looked(rep) {
		return err
	}
	return s.Write(rep)
}
