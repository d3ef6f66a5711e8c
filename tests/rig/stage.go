package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// inside is where binaries and test data stand in every machine.
const inside = "/opt/unitward"

// rigPackages have tests that need systemd or cgroups; a pattern that matches
// nothing yet is passed over.
var rigPackages = []string{
	"./tests/e2e", "./tests/faults", "./dbusclient", "./dbusclient/property", "./fallback/...", "./unit/keeper/...", "./unit/launch/...", "./unit/serve", "./cmd/unitward-mcp",
	"./" + packageTests,
}

// coverPackages are those whose coverage counts.
var coverPackages = []string{"./cmd/...", "./dbusclient/...", "./fallback/...", "./unit/...", "./verify/..."}

// testBinary is a compiled test of one package.
type testBinary struct {
	Package string // import path
	Dir     string // from the module's root: "tests/e2e"
}

// in is where it stands in a machine.
func (b testBinary) in() string   { return inside + "/" + b.Dir }
func (b testBinary) file() string { return b.in() + "/rig.test" }

// log is a file name for the package.
func (b testBinary) log() string { return strings.ReplaceAll(b.Dir, "/", "-") + ".log" }

// stage is a directory on the host that looks as /opt/unitward will.
type stage struct {
	Dir      string
	Binaries []testBinary
	Cover    bool
}

// buildStage compiles everything once, static, for all machines.
func buildStage(ctx context.Context, o options) (*stage, error) {
	st := &stage{Dir: filepath.Join(o.out, "stage"), Cover: o.cover}
	if err := os.RemoveAll(st.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(st.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := st.buildCommand(ctx); err != nil {
		return nil, err
	}
	var err error
	if st.Binaries, err = testPackages(ctx, o.packages); err != nil {
		return nil, err
	}
	for _, b := range st.Binaries {
		if err := st.buildTest(ctx, b); err != nil {
			return nil, err
		}
	}
	return st, nil
}

func (st *stage) buildCommand(ctx context.Context) error {
	const pkg = "./cmd/unitward"
	if _, err := os.Stat(pkg); err != nil {
		return nil
	}
	args := append([]string{"build", "-trimpath", "-o", filepath.Join(st.Dir, "unitward")}, coverFlags(st.Cover)...)
	if err := goTool(ctx, append(args, pkg)...); err != nil {
		return fmt.Errorf("cannot build unitward: %w", err)
	}
	return nil
}

func (st *stage) buildTest(ctx context.Context, b testBinary) error {
	dir := filepath.Join(st.Dir, b.Dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	args := append([]string{"test", "-c", "-trimpath", "-o", filepath.Join(dir, "rig.test")}, coverFlags(st.Cover)...)
	if err := goTool(ctx, append(args, b.Package)...); err != nil {
		return fmt.Errorf("cannot build the tests of %s: %w", b.Dir, err)
	}
	data := filepath.Join(b.Dir, "testdata")
	if _, err := os.Stat(data); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS(data)); err != nil {
		return fmt.Errorf("cannot copy %s: %w", data, err)
	}
	return nil
}

// coverFlags ask for coverage of every package of ours, in the one mode that
// the results of all runs can be merged in.
func coverFlags(on bool) []string {
	if !on {
		return nil
	}
	return []string{"-cover", "-covermode=atomic", "-coverpkg=" + strings.Join(existing(coverPackages), ",")}
}

// testPackages lists the packages among the patterns that have tests.
func testPackages(ctx context.Context, patterns []string) ([]testBinary, error) {
	patterns = existing(patterns)
	if len(patterns) == 0 {
		return nil, nil
	}
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Module.Path}}{{end}}`
	out, err := goOutput(ctx, append([]string{"list", "-f", format}, patterns...)...)
	if err != nil {
		return nil, fmt.Errorf("cannot list the packages with tests: %w", err)
	}
	var found []testBinary
	for line := range strings.Lines(out) {
		if pkg, module, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			found = append(found, testBinary{Package: pkg, Dir: strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/")})
		}
	}
	return found, nil
}

// existing leaves the patterns whose directory is there.
func existing(patterns []string) []string {
	var out []string
	for _, p := range patterns {
		if _, err := os.Stat(strings.TrimSuffix(p, "/...")); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// goTool runs the go command as the machines need it: static binaries.
func goTool(ctx context.Context, args ...string) error {
	return runQuietly(goCommand(ctx, args...))
}

func goOutput(ctx context.Context, args ...string) (string, error) {
	cmd := goCommand(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, errs.String())
	}
	return out.String(), nil
}

func goCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return cmd
}

// copyInto puts the stage into a machine.
func (st *stage) copyInto(m *Machine) error {
	if err := os.CopyFS(m.path(inside), os.DirFS(st.Dir)); err != nil {
		return fmt.Errorf("cannot copy the tests into %s: %w", m.Name, err)
	}
	cover := m.path(coverDir)
	if err := os.MkdirAll(cover, 0o755); err != nil {
		return err
	}
	return os.Chmod(cover, 0o777|os.ModeSticky)
}

// coverDir takes the coverage data in a machine.
const coverDir = inside + "/cover"
