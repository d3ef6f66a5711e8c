package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func cmdBuild(ctx context.Context, args []string) (int, error) {
	suites := Suites
	if len(args) > 0 {
		var err error
		if suites, err = ParseSuites(strings.Join(args, ",")); err != nil {
			return 2, err
		}
	}
	return 0, buildAll(ctx, suites)
}

// buildAll builds the roots, two at a time.
func buildAll(ctx context.Context, suites []Suite) error {
	errs := make([]error, len(suites))
	inParallel(2, 2, len(suites), nil, func(i int) { errs[i] = Build(ctx, suites[i]) })
	return errors.Join(errs...)
}

func cmdUp(ctx context.Context, args []string) (int, error) {
	if len(args) < 1 || len(args) > 2 {
		return 2, usageError("cannot boot: up SUITE [NAME]")
	}
	s, err := FindSuite(args[0])
	if err != nil {
		return 2, err
	}
	name := args[len(args)-1]
	if m, err := Find(name); err == nil && m.Suite == s {
		note("%s is up already", name)
		return 0, nil
	}
	start := time.Now()
	m, err := Start(ctx, s, name, false)
	if err != nil {
		return 1, err
	}
	note("%s is up with %s after %.1fs", name, s, time.Since(start).Seconds())
	if len(m.Failed) > 0 {
		note("units that failed in it: %s", strings.Join(m.Failed, ", "))
	}
	return 0, nil
}

func cmdExec(ctx context.Context, args []string) (int, error) {
	const synopsis = "exec NAME [-u USER] [-C DIR] [-E K=V] -- CMD..."
	if len(args) < 2 {
		return 2, usageError("cannot execute: " + synopsis)
	}
	flags := flag.NewFlagSet("exec", flag.ContinueOnError)
	user := flags.String("u", "root", "the user")
	dir := flags.String("C", "", "the directory (the user's home)")
	var env []string
	flags.Func("E", "a variable, K=V", func(s string) error { env = append(env, s); return nil })
	if err := flags.Parse(args[1:]); err != nil {
		return 2, err
	}
	if flags.NArg() == 0 {
		return 2, usageError("cannot execute: " + synopsis)
	}
	m, err := Find(args[0])
	if err != nil {
		return 125, err
	}
	_, err = unix.IoctlGetTermios(0, unix.TCGETS)
	// The signals go to the command, which decides what they mean.
	code, err := m.Run(context.WithoutCancel(ctx), Command{
		User: *user, Dir: *dir, Env: env, Argv: flags.Args(), Terminal: err == nil,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return 125, err
	}
	return code, nil
}

func cmdDown(ctx context.Context, args []string) (int, error) {
	errs := []error{sweepDead()}
	for _, name := range args {
		if err := validName(name); err != nil {
			return 2, err
		}
		if _, err := os.Stat(machineDir(name)); err != nil {
			continue
		}
		errs = append(errs, Stop(ctx, name))
	}
	return 0, errors.Join(errs...)
}

func cmdList(context.Context, []string) (int, error) {
	names, err := machineNames()
	for _, name := range names {
		r, rerr := readRecord(name)
		if rerr != nil || !alive(name) {
			fmt.Printf("%s\tdead\n", name)
			continue
		}
		fmt.Printf("%s\t%s\tinit %d\t%s\tsince %s\n", name, r.Suite, r.Init, r.Cgroup, r.Since.Format(time.DateTime))
	}
	return 0, err
}
