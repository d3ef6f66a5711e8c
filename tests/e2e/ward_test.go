package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
)

// ward is unitward with a state directory of its own. What it starts is
// stopped when the test ends, however that ends.
type ward struct {
	t     testing.TB
	state string
	// isolation is where its jobs are; empty leaves that to the program.
	isolation string
	// env replaces the environment; nil is the test's own.
	env []string
	// scope makes what it launches enter a scope of the user's manager first.
	scope bool
	// before is a command line in front of the program's, such as setpriv's.
	before []string
}

func newWard(t *testing.T) *ward {
	t.Helper()
	needRig(t)
	if os.Getenv(inScope) != "" {
		t.Skip("scope: it is of no one isolation; the run around this one has it")
	}
	w := &ward{t: t, state: filepath.Join(t.TempDir(), "state")}
	t.Cleanup(func() { w.stopAll() })
	return w
}

// stopAll ends every job on record, with the environment of the test itself.
func (w *ward) stopAll() {
	plain := *w
	if w.before == nil {
		plain.env = nil
	}
	jobs, _ := os.ReadDir(filepath.Join(w.state, "jobs"))
	for _, j := range jobs {
		if plain.do("stop", "--grace", "0s", "-q", j.Name()).code == 0 {
			plain.unattended(j.Name())
		}
	}
}

// unattended waits until no process of ours stays with a job that has ended: one
// could still write to its directory, which is about to be removed.
func (w *ward) unattended(name string) {
	var rec unit.Record
	b, err := os.ReadFile(filepath.Join(w.state, "jobs", name, "job.json"))
	if err != nil || json.Unmarshal(b, &rec) != nil {
		return
	}
	if !eventually(func() bool { return launch.Ended(rec.Keeper) && launch.Ended(rec.Reaper) }) {
		w.t.Errorf("with job %s, which has ended, stay its keeper %v or its reaper %v", name, rec.Keeper, rec.Reaper)
	}
}

func (w *ward) cmd(args ...string) *exec.Cmd {
	argv := slices.Clone(w.before)
	launch := len(args) > 0 && (args[0] == "run" || args[0] == "start")
	if launch && w.scope {
		argv = append(argv, "systemd-run", "--user", "--scope", "--collect", "--quiet", "--")
	}
	argv = append(argv, program(w.t), "--state-dir", w.state)
	if w.isolation != "" && launch {
		argv = append(argv, args[0], "--isolation", w.isolation)
		if args[0] == "start" && !journal() {
			argv = append(argv, "--output", "null")
		}
		args = args[1:]
	}
	argv = append(argv, args...)
	c := exec.Command(argv[0], argv[1:]...)
	c.Env = w.env
	if c.Env == nil {
		c.Env = os.Environ()
	}
	c.Dir = "/"
	c.WaitDelay = patience
	return c
}

// answer is what a program had to say.
type answer struct {
	line     string
	code     int
	out, err string
}

func (a answer) String() string {
	return fmt.Sprintf("%s: status %d\nstdout: %s\nstderr: %s", a.line, a.code, a.out, a.err)
}

func (w *ward) do(args ...string) answer {
	w.t.Helper()
	return w.finish(w.cmd(args...))
}

func (w *ward) finish(c *exec.Cmd) answer {
	w.t.Helper()
	a, err := perform(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// perform is for goroutines, which must not end a test.
func perform(c *exec.Cmd) (answer, error) {
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	a := answer{line: shorten(strings.Join(c.Args, " ")), out: out.String(), err: errs.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		a.code = exit.ExitCode()
	case err != nil:
		return a, fmt.Errorf("%s: %w", a.line, err)
	}
	return a, nil
}

func shorten(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// want runs the program and wants its status.
func (w *ward) want(code int, args ...string) answer {
	w.t.Helper()
	a := w.do(args...)
	if a.code != code {
		w.t.Fatalf("want status %d of %s", code, a)
	}
	return a
}

// report is what a verb prints with --json, whatever its status.
func (w *ward) report(args ...string) report {
	w.t.Helper()
	return parseReport(w.t, w.do(append([]string{"--json"}, args...)...).out)
}

// report is one report as any program would read it.
type report struct {
	t   testing.TB
	v   any
	raw string
}

func parseReport(t testing.TB, text string) report {
	t.Helper()
	r := report{t: t, raw: text}
	if err := json.Unmarshal([]byte(text), &r.v); err != nil {
		t.Fatalf("no report: %v: %q", err, text)
	}
	return r
}

func readReport(t testing.TB, file string) report {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return parseReport(t, string(b))
}

// get is a field, as the json command of the scripts has it.
func (r report) get(path string) string {
	r.t.Helper()
	got, ok := dig(r.v, path)
	if !ok {
		r.t.Fatalf("no %s in %s", path, r.raw)
	}
	if s, ok := got.(string); ok {
		return s
	}
	b, err := json.Marshal(got)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// has wants fields: PATH=VALUE.
func (r report) has(fields ...string) {
	r.t.Helper()
	for _, f := range fields {
		path, want, _ := strings.Cut(f, "=")
		if got := r.get(path); got != want {
			r.t.Errorf("%s is %s, want %s\n%s", path, got, want, r.raw)
		}
	}
}

// alive waits for exactly one process of the argument vector and returns it.
func alive(t testing.TB, argv ...string) int {
	t.Helper()
	var pids []int
	if !eventually(func() bool { pids = processes(argv); return len(pids) == 1 }) {
		t.Fatalf("%v: processes %v, want one", argv, pids)
	}
	return pids[0]
}

// gone wants no process of the argument vector, within a time.
func gone(t testing.TB, within time.Duration, argv ...string) {
	t.Helper()
	for deadline := time.Now().Add(within); len(processes(argv)) > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%v still runs after %v: %v", argv, within, processes(argv))
		}
	}
}

// shell runs a command that must succeed.
func shell(t testing.TB, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// exists waits for a file.
func exists(t testing.TB, file string) {
	t.Helper()
	if !eventually(func() bool { _, err := os.Stat(file); return err == nil }) {
		t.Fatalf("%s does not appear", file)
	}
}

func touch(t testing.TB, file string) {
	t.Helper()
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// until is a shell script that says it is up, waits for a file and ends.
func until(up, file string, code int) string {
	return fmt.Sprintf("touch %s; while ! [ -e %s ]; do sleep .03; done; exit %d", up, file, code)
}

// runtimeFiles lists what starts have left on their way to the manager.
func runtimeFiles() []string {
	dir := "/run/unitward"
	if os.Geteuid() != 0 {
		dir = filepath.Join("/run/user", fmt.Sprint(os.Geteuid()), "unitward")
	}
	var names []string
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		names = append(names, filepath.Join(dir, f.Name()))
	}
	return names
}
