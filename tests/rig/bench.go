package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// benchTests is the benchmark, which needs its peers beside it.
	benchTests = "tests/bench"
	// benchResults is where what was measured is written, and copied under the
	// name of its commit.
	benchResults = "build/bench.json"
	// benchDisk is where a machine finds a directory on the host's disk: all
	// else in it is in memory.
	benchDisk = inside + "/disk"
)

// benchmarked is what the benchmark has measured everywhere, in the form that
// `-compare` of ./tests/bench reads.
type benchmarked struct {
	Schema string            `json:"schema"`
	Commit string            `json:"commit"`
	Runs   []json.RawMessage `json:"runs"`
}

// cmdBench runs ./tests/bench in every suite, one at a time, as root and as an
// ordinary user. What is measured side by side is measured by that program.
func cmdBench(ctx context.Context, args []string) (int, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	list := flags.String("suites", "all", "the suites to run in: a list, or all")
	who := flags.String("users", strings.Join(users, ","), "the users to measure as, in a list")
	n := flags.String("n", "", "rounds of each contest of single commands")
	what := flags.String("what", "", "what is measured, in a list: latency, rate, verdict, memory, live, loaded (the default); many, serve, flood")
	floodFor := flags.String("flood", "", "how long output is written")
	results := flags.String("o", benchResults, "where the figures are written, as JSON")
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
	st, err := benchStage(ctx, filepath.Join(out, "bench"))
	if err != nil {
		return 1, err
	}
	if err := buildAll(ctx, suites); err != nil {
		return 1, err
	}
	var argv []string
	for name, value := range map[string]string{"-n": *n, "-what": *what, "-flood": *floodFor} {
		if value != "" {
			argv = append(argv, name, value)
		}
	}
	all := &benchmarked{Schema: "unitward.bench/1", Commit: commit(ctx)}
	var failed error
	for _, s := range suites {
		failed = errors.Join(failed, benchSuite(ctx, s, st, strings.Split(*who, ","), argv, all), all.write(*results))
	}
	note("the figures are in %s", *results)
	return 0, failed
}

// benchStage builds what the benchmark runs.
func benchStage(ctx context.Context, dir string) (*stage, error) {
	st := &stage{Dir: dir}
	if err := errors.Join(os.RemoveAll(st.Dir), os.MkdirAll(st.Dir, 0o755)); err != nil {
		return nil, err
	}
	if err := st.buildCommand(ctx); err != nil {
		return nil, err
	}
	for name, pkg := range map[string]string{"bench": "./" + benchTests, "nothing": "./" + benchTests + "/nothing"} {
		if err := goTool(ctx, "build", "-trimpath", "-o", filepath.Join(st.Dir, name), pkg); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func benchSuite(ctx context.Context, s Suite, st *stage, who, args []string, all *benchmarked) (err error) {
	m, err := Start(ctx, s, uniqueName(s.Name), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if err := st.copyInto(m); err != nil {
		return err
	}
	if err := installCompanions(ctx, m, benchTests); err != nil {
		note("THE PEERS ARE NOT ALL THERE: %v", err) // the table says which
	}
	disk, err := os.MkdirTemp(stateDir(), "bench-disk-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(disk)
	if err := errors.Join(os.Chmod(disk, 0o777|os.ModeSticky), m.lend(disk, benchDisk)); err != nil {
		return err
	}
	var failed error
	for _, user := range who {
		argv := append([]string{inside + "/bench", "-json", "-disk", benchDisk, "-label", fmt.Sprintf("%s, %s", s, user)}, args...)
		var said bytes.Buffer
		code, err := m.Run(ctx, Command{
			User: user, Argv: argv, Dir: inside, Stdout: &said, Stderr: os.Stderr,
			Env: []string{"UNITWARD_BIN=" + inside + "/unitward", "UNITWARD_BENCH_NOTHING=" + inside + "/nothing"},
		})
		if json.Valid(said.Bytes()) {
			all.Runs = append(all.Runs, said.Bytes())
		}
		if err == nil && code != 0 {
			err = fmt.Errorf("the benchmark ended with status %d", code)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot measure on %s as %s: %w", s, user, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// write puts the figures where they are looked for, and beside it, where the
// commit is known, under a name that the next commit's do not take.
func (b *benchmarked) write(path string) error {
	text, err := json.MarshalIndent(b, "", "\t")
	if err != nil {
		return err
	}
	paths := []string{path}
	if b.Commit != "" {
		paths = append(paths, strings.TrimSuffix(path, ".json")+"-"+b.Commit+".json")
	}
	for _, p := range paths {
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, append(text, '\n'), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// commit names the tree's commit; empty where it has none.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--abbrev=12", "--exclude", "*", "--dirty").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
