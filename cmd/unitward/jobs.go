package main

import (
	"context"
	"errors"
	"slices"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// jobs are the jobs of a command line. What goes wrong with one of them is no
// reason to leave the others.
type jobs struct {
	a    *app
	l    *launch.Launcher
	open []*launch.Job
	// several is true when more than one was named.
	several bool
	// worst is the highest exit status so far, err the only error.
	worst int
	err   error
}

// jobName is the name of the job that was meant.
func jobName(typed string) (string, error) { return unit.ParseName(unit.MangleName(typed)) }

// openJobs finds the jobs that were named, each once. The error is that of the
// state directory. Close them.
func (a *app) openJobs(ctx context.Context, args []string) (*jobs, error) {
	l, err := a.launcher()
	if err != nil {
		return nil, err
	}
	js := &jobs{a: a, l: l}
	var found, wrong []string
	for _, arg := range args {
		// "foo" and "foo.service" are one; so is a mistake made twice.
		if name, err := jobName(arg); err != nil {
			wrong = append(wrong, arg)
		} else if !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	slices.Sort(wrong)
	wrong = slices.Compact(wrong)
	js.several = len(found)+len(wrong) > 1
	for _, arg := range wrong {
		_, err := jobName(arg)
		js.failed(err)
	}
	for _, name := range found {
		j, err := l.Open(ctx, name)
		if err != nil {
			js.failed(err)
			continue
		}
		js.open = append(js.open, j)
	}
	return js, nil
}

func (js *jobs) close() {
	for _, j := range js.open {
		j.Close()
	}
	js.l.Close()
}

// failed notes what went wrong with one job. Of several each is said at once.
func (js *jobs) failed(err error) {
	switch {
	case err == nil:
	case js.several:
		js.status(fail(err, js.a.json, js.a.streams))
	default:
		js.err = err
	}
}

// status notes the exit status that one job stands for.
func (js *jobs) status(n int) { js.worst = max(js.worst, n) }

// result is what the verb ends with.
func (js *jobs) result() error {
	var status *statusError
	switch {
	case js.err != nil && !errors.As(js.err, &status):
		return js.err
	case js.worst != exitOK:
		return &statusError{js.worst}
	}
	return js.err
}

// each does something to each of the jobs that were named.
func (a *app) each(args []string, do func(context.Context, *jobs, *launch.Job) error) error {
	ctx := context.Background()
	js, err := a.openJobs(ctx, args)
	if err != nil {
		return err
	}
	defer js.close()
	for _, j := range js.open {
		js.failed(do(ctx, js, j))
	}
	return js.result()
}
