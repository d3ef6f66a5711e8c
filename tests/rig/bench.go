package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// cmdBench runs ./tests/bench in every suite, one at a time, as root and as an
// ordinary user. What is measured side by side is measured by that program.
func cmdBench(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	list := flags.String("suites", "all", "the suites to run in: a list, or all")
	n := flags.Int("n", 100, "runs of each command")
	what := flags.String("what", "peers", "what is measured: peers, many (2,000 jobs), serve (one connection), flood (much output), in a list")
	floodFor := flags.Duration("flood", time.Minute, "how long output is written")
	if err := flags.Parse(args); err != nil {
		return 2, usageError(err.Error())
	}
	suites, err := ParseSuites(*list)
	if err != nil {
		return 2, err
	}
	out, leave, err := enterModule(ctx)
	if err != nil {
		return 1, err
	}
	defer leave()
	if err := checkBuild(); err != nil {
		return 1, err
	}
	st := &stage{Dir: filepath.Join(out, "bench")}
	if err := errors.Join(os.RemoveAll(st.Dir), os.MkdirAll(st.Dir, 0o755)); err != nil {
		return 1, err
	}
	if err := st.buildCommand(ctx); err != nil {
		return 1, err
	}
	if err := goTool(ctx, "build", "-trimpath", "-o", filepath.Join(st.Dir, "bench"), "./tests/bench"); err != nil {
		return 1, err
	}
	if err := buildAll(ctx, suites); err != nil {
		return 1, err
	}
	for _, s := range suites {
		argv := []string{"-n", fmt.Sprint(*n), "-what", *what, "-flood", floodFor.String()}
		if err := benchSuite(ctx, s, st, argv); err != nil {
			return 1, err
		}
	}
	return 0, nil
}

func benchSuite(ctx context.Context, s Suite, st *stage, args []string) (err error) {
	m, err := Start(ctx, s, uniqueName(s.Name), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := st.copyInto(m); err != nil {
		return err
	}
	for _, user := range users {
		argv := append([]string{inside + "/bench", "-label", fmt.Sprintf("%s, %s", s, user)}, args...)
		code, err := m.Run(ctx, Command{
			User: user, Argv: argv, Dir: inside, Env: []string{"UNITWARD_BIN=" + inside + "/unitward"}, Stdout: os.Stdout, Stderr: os.Stderr,
		})
		if err == nil && code != 0 {
			err = fmt.Errorf("the benchmark ended with status %d", code)
		}
		if err != nil {
			return fmt.Errorf("cannot measure on %s as %s: %w", s, user, err)
		}
	}
	return nil
}
