package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"
)

// testFlags reads the flags that "test" and "all" share.
func testFlags(name string, args []string, suites, vms string) (options, error) {
	var o options
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.StringVar(&suites, "suites", suites, "the suites to run in the rig: a list, all or none")
	flags.StringVar(&vms, "vm", vms, "the emulated machines to run, such as sid or bookworm-legacy: a list, all or none")
	flags.StringVar(&o.run, "run", "", "the tests to run in the rig (a regular expression)")
	flags.StringVar(&o.vmRun, "vm-run", "", "the tests to run in emulated machines (a regular expression); each has its own")
	packages := flags.String("packages", strings.Join(rigPackages, ","), "the packages whose tests run in the rig")
	flags.DurationVar(&o.timeout, "timeout", time.Hour, "how long one test binary may run")
	flags.IntVar(&o.width, "j", 4, "machines at a time, where the processors have room for more than one each; emulated ones at most one for each")
	flags.BoolVar(&o.spare, "spare", false, "leave out what another machine of the run shows as well")
	flags.BoolVar(&o.cover, "cover", false, "write build/coverage.txt")
	if err := flags.Parse(args); err != nil {
		return o, usageError(err.Error())
	}
	if flags.NArg() > 0 {
		return o, usageError(fmt.Sprintf("cannot understand %q", flags.Arg(0)))
	}
	o.packages = strings.Split(*packages, ",")
	var err, verr error
	o.suites, err = ParseSuites(suites)
	o.vms, verr = ParseTargets(vms)
	return o, errors.Join(err, verr)
}

func cmdTest(ctx context.Context, args []string) (int, error) {
	o, err := testFlags("test", args, "all", "none")
	if err != nil {
		return 2, err
	}
	leave, err := prepare(ctx, &o)
	if err != nil {
		return 1, err
	}
	defer leave()
	var r report
	err = r.machines(ctx, o)
	enforce(r.Runs, machineSkips...)
	return r.finish(ctx, o, err)
}

// cmdAll runs everything that can run on this machine.
func cmdAll(ctx context.Context, args []string) (int, error) {
	o, err := testFlags("all", args, "all", "all")
	if err != nil {
		return 2, err
	}
	leave, err := prepare(ctx, &o)
	if err != nil {
		return 1, err
	}
	defer leave()
	var r report
	r.packages(ctx, &o)
	r.clients(ctx, &o)
	// Beside the machines, which wait most of the time.
	note("unit tests")
	var unit []testRun
	var uerr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		unit, uerr = runUnit(ctx, o)
	}()
	err = r.machines(ctx, o)
	<-done
	if uerr != nil {
		return 1, uerr
	}
	enforce(unit, packageSkip, clientSkip)
	enforce(r.Runs, machineSkips...) // before the unit tests join: what they skip runs elsewhere
	r.lost(dropMoved(unit, r.Runs))
	r.Runs = append(unit, r.Runs...)
	return r.finish(ctx, o, err)
}

// prepare finds the place for the logs, and removes those of an earlier call.
func prepare(ctx context.Context, o *options) (leave func(), err error) {
	if o.out, leave, err = enterModule(ctx); err != nil {
		return nil, err
	}
	old := []string{"cover", "unit.log"}
	for _, s := range Suites {
		old = append(old, s.Name)
	}
	for _, name := range old {
		if err := os.RemoveAll(filepath.Join(o.out, name)); err != nil {
			leave()
			return nil, fmt.Errorf("cannot remove old logs: %w", err)
		}
	}
	return leave, nil
}

// machines runs the tests in the rig and then in the emulated machines. Only a
// failure of the driver itself, or an interruption, is an error.
func (r *report) machines(ctx context.Context, o options) error {
	if len(o.suites)+len(o.vms) == 0 {
		return nil
	}
	if err := checkBuild(); err != nil {
		for _, s := range o.suites {
			r.cannot("the rig of "+s.String(), "rig", err)
		}
		for _, t := range o.vms {
			r.cannot("the emulated machine of "+t.String(), "vm", err)
		}
		return nil
	}
	note("building the tests")
	st, err := buildStage(ctx, o)
	if err != nil {
		return err
	}
	r.packagesForMachines(ctx, st, &o)
	if len(st.Binaries) == 0 {
		r.NotRun = append(r.NotRun, "the rig: no package has tests for it")
		return nil
	}
	if err := buildAll(ctx, union(o.suites, suitesOf(o.vms))); err != nil {
		note("%s", err) // each machine says again that it lacks its root
	}
	each(ctx, r, o.width, "the rig", "rig", o.suites, func(s Suite) ([]testRun, error) { return runSuite(ctx, s, st, o) })
	if len(o.vms) > 0 {
		if err := noVMTests(ctx, st, o); err != nil {
			r.NotRun = append(r.NotRun, "the emulated machines: "+err.Error())
			o.vms = nil
		}
	}
	// An emulated machine takes a processor whole; the others wait most of the time.
	each(ctx, r, min(o.width, runtime.NumCPU()), "the emulated machine", "vm", o.vms, func(t Target) ([]testRun, error) { return runVM(ctx, t, st, o) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// each runs machines of one kind, and takes what they found out into the report.
func each[M fmt.Stringer](ctx context.Context, r *report, width int, kind, required string, machines []M, run func(M) ([]testRun, error)) {
	if ctx.Err() != nil {
		return
	}
	var mu sync.Mutex
	runs := make([][]testRun, len(machines))
	// The last first: where the run spares, it has the most to do.
	inParallel(width, runtime.NumCPU(), len(machines), hasRoom, func(i int) {
		i = len(machines) - 1 - i
		start := time.Now()
		var err error
		runs[i], err = run(machines[i])
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			note("%s of %s: done in %.1fs", kind, machines[i], time.Since(start).Seconds())
		}
		if err != nil && len(runs[i]) == 0 {
			r.cannot(kind+" of "+machines[i].String(), required, err)
		} else if err != nil {
			r.Failed = append(r.Failed, kind+" of "+machines[i].String()+": "+err.Error())
		}
	})
	for _, rs := range runs {
		r.Runs = append(r.Runs, rs...)
	}
}

// finish prints the report, also of a run that was cut short, and merges the
// coverage.
func (r *report) finish(ctx context.Context, o options, cut error) (int, error) {
	if cut != nil {
		r.print(os.Stdout)
		return 1, cut
	}
	if o.cover {
		if err := mergeCoverage(ctx, o.out); err != nil {
			return 1, err
		}
	}
	if s := o.spared(); s != "" {
		fmt.Println(s)
	}
	if r.print(os.Stdout) {
		return 1, nil
	}
	return 0, nil
}

func union(a, b []Suite) []Suite {
	var out []Suite
	for _, s := range Suites {
		for _, t := range append(append([]Suite{}, a...), b...) {
			if s == t {
				out = append(out, s)
				break
			}
		}
	}
	return out
}
