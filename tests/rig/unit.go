package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// runUnit runs "go test ./..." on the host.
func runUnit(ctx context.Context, o options) ([]testRun, error) {
	path := filepath.Join(o.out, "unit.log")
	log, err := createLog(path)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args := append([]string{"test", "-json", "-timeout", o.timeout.String()}, coverFlags(o.cover)...)
	args = append(args, "./...")
	if o.cover {
		dir, err := filepath.Abs(filepath.Join(o.out, "cover", "unit"))
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
		args = append(args, "-args", "-test.gocoverdir="+dir)
	}
	cmd := goCommand(ctx, args...)
	// What has to run in machines is this driver's to see to.
	cmd.Env = append(cmd.Env, "UNITWARD_REQUIRE=", packagesVariable+"="+o.built, modulesVariable+"="+o.modules)
	if _, told := os.LookupEnv(isolationVariable); o.spare && !told {
		cmd.Env = append(cmd.Env, isolationVariable+"=cgroup")
	}
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	endTogether(cmd)
	start := time.Now()
	var outcomes []Outcome
	var werr error
	err = tiedToThread(func() (err error) {
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("cannot run the unit tests: %w", err)
		}
		outcomes, err = collect(out, log)
		werr = cmd.Wait()
		return err
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	module, merr := goOutput(ctx, "list", "-m")
	if err := errors.Join(err, merr); err != nil {
		return nil, err
	}
	runs := byPackage(outcomes, strings.TrimSpace(module))
	for i := range runs {
		runs[i].Log = path
	}
	r := testRun{Where: "unit", Log: path, Took: time.Since(start)}
	if werr != nil && !slices.ContainsFunc(runs, func(r testRun) bool { return r.count().failed > 0 }) {
		r.Err = fmt.Errorf("go test: %w\n%s", werr, indent(tail(path, 40)))
	}
	return append(runs, r), nil
}

func byPackage(outcomes []Outcome, module string) []testRun {
	var runs []testRun
	for _, o := range outcomes {
		dir := strings.TrimPrefix(strings.TrimPrefix(o.Package, module), "/")
		i := slices.IndexFunc(runs, func(r testRun) bool { return r.Package == dir })
		if i < 0 {
			runs = append(runs, testRun{Where: "unit", Package: dir})
			i = len(runs) - 1
		}
		runs[i].Outcomes = append(runs[i].Outcomes, o)
	}
	return runs
}

// dropMoved leaves out what the unit tests skipped because it is for machines,
// where a machine did run that package. It returns what no machine ran.
func dropMoved(unit, elsewhere []testRun) (lost []string) {
	ran := map[string]bool{}
	for _, r := range elsewhere {
		for _, o := range r.Outcomes {
			if o.Action != "skip" {
				ran[r.Package+" "+o.Test] = true
			}
		}
	}
	for i, r := range unit {
		unit[i].Outcomes = slices.DeleteFunc(r.Outcomes, func(o Outcome) bool {
			what, _, _ := strings.Cut(o.Reason(), ":")
			if o.Action != "skip" || what != "rig" && what != "vm" {
				return false
			}
			name := r.Package + " " + o.Test
			if !ran[name] && !anyBelow(ran, name) {
				lost = append(lost, name)
				return false
			}
			return true
		})
	}
	return lost
}

func anyBelow(ran map[string]bool, name string) bool {
	for k := range ran {
		if strings.HasPrefix(k, name+"/") {
			return true
		}
	}
	return false
}
