package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// users are who every test runs as: with the system manager, and with a manager
// of one's own.
var users = []string{"root", "tester"}

// options are what the flags of the driver say.
type options struct {
	suites   []Suite
	vms      []Target
	packages []string
	run      string // -test.run in the rig
	vmRun    string // -test.run in the emulated machines; empty is what each has
	timeout  time.Duration
	width    int  // machines at a time
	spare    bool // see spares
	cover    bool
	out      string // where the logs go
	built    string // where the packages are; empty where none were built
	modules  string // where npm has installed what clients need; empty where it has not
}

// testEnv is what tests see in every machine.
func testEnv(st *stage, more ...string) []string {
	env := append([]string{"UNITWARD_RIG=1", "UNITWARD_BIN=" + inside + "/unitward"}, more...)
	if require := os.Getenv("UNITWARD_REQUIRE"); require != "" {
		env = append(env, "UNITWARD_REQUIRE="+require)
	}
	for _, name := range tuning {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if st.Cover {
		env = append(env, "GOCOVERDIR="+coverDir)
	}
	return env
}

// tuning are the variables that say how much of a drawn test is run, and which.
var tuning = []string{"UNITWARD_TEST_CRASHES", "UNITWARD_TEST_KILLS", "UNITWARD_TEST_RUNS", "UNITWARD_TEST_SEED", "UNITWARD_TEST_ISOLATION", "SERVE_KILLS", "SERVE_SEED", "SERVE_LIVE"}

// testArgs are the arguments of a test binary.
func testArgs(st *stage, o options, run string) []string {
	args := []string{"-test.v=test2json", "-test.timeout=" + o.timeout.String()}
	if run != "" {
		args = append(args, "-test.run="+run)
	}
	if st.Cover {
		args = append(args, "-test.gocoverdir="+coverDir)
	}
	return args
}

// runSuite boots a suite and runs every test binary in it, as each user.
func runSuite(ctx context.Context, s Suite, st *stage, o options) (runs []testRun, err error) {
	m, err := Start(ctx, s, uniqueName(s.Name), true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	if len(m.Failed) > 0 {
		note("units that failed at the boot of %s: %s", s, strings.Join(m.Failed, ", "))
	}
	if err := st.copyInto(m); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(st.Binaries, func(b testBinary) bool { return b.Dir == terminalTests }) {
		// Without it a test is skipped, and says so.
		if err := installCompanions(ctx, m, terminalTests); err != nil {
			note("%v", err)
		}
	}
	failed := false
	for _, p := range passes(o, s) {
		for _, user := range p.users {
			for _, b := range st.Binaries {
				if err := ctx.Err(); err != nil {
					return runs, context.Cause(ctx)
				}
				if !p.takes(b, user) || o.spares(s) && b.unmanaged() {
					continue
				}
				if b.Dir == packageTests {
					if err := copyPackages(ctx, m, o.built); err != nil {
						runs = append(runs, testRun{Where: s.String(), User: user, Package: b.Dir, Err: err})
						continue
					}
				}
				r := runBinary(ctx, m, user, b, st, o, p)
				failed = failed || r.count().failed > 0
				runs = append(runs, r)
			}
		}
	}
	if failed {
		err = errors.Join(err, saveJournal(ctx, m, filepath.Join(o.out, s.Name, "journal.log")))
	}
	if st.Cover {
		err = errors.Join(err, os.CopyFS(filepath.Join(o.out, "cover", s.Name), os.DirFS(m.path(coverDir))))
	}
	return runs, err
}

// pass is one way through the test binaries of a machine.
type pass struct {
	users     []string
	run, skip string
	// only is the one package that has tests for the pass; empty is all.
	only string
	// any takes in the packages that have a pass of their own.
	any bool
	// isolations are those to test; empty is all.
	isolations string
	// log is put before the names of the logs.
	log string
}

// takes says whether the pass runs a test binary as a user. What installs and
// removes packages is for root alone, and comes by itself.
func (p pass) takes(b testBinary, user string) bool {
	if b.Dir == packageTests {
		return user == "root" && (p.only == packageTests || p.any)
	}
	return p.only == "" || p.only == b.Dir
}

// disturbing tests end brokers and managers. What such a machine is like
// afterwards is no ground for other tests: they come last, those of the user
// before those of the system, and those that start a user manager again before
// the system's broker is ended, after which logind may not come back.
const (
	disturbing         = "^TestDisturbed"
	disturbingManagers = "^TestDisturbedManager"
)

func passes(o options, s Suite) []pass {
	if o.run != "" {
		return []pass{{users: users, run: o.run, any: true}}
	}
	undisturbed := pass{users: users, skip: "^TestVM|" + disturbing} // TestVM is for the emulated machines
	begin := []pass{undisturbed}
	if o.spare {
		begin = o.sparing(s, undisturbed)
	}
	return append(begin,
		pass{users: []string{"root"}, run: "^TestInstalled", only: packageTests},
		pass{users: []string{"tester"}, run: disturbing, only: "tests/e2e", log: "disturbed-"},
		pass{users: []string{"root"}, run: disturbingManagers, only: "tests/e2e", log: "managers-"},
		pass{users: []string{"root"}, run: disturbing, skip: disturbingManagers, only: "tests/e2e", log: "disturbed-"},
	)
}

// runBinary runs one test binary, its directory being the package's own.
func runBinary(ctx context.Context, m *Machine, user string, b testBinary, st *stage, o options, p pass) testRun {
	r := testRun{Where: m.Suite.String(), User: user, Package: b.Dir, Log: filepath.Join(o.out, m.Suite.Name, user, p.log+b.log())}
	start := time.Now()
	log, err := createLog(r.Log)
	if err != nil {
		r.Err = err
		return r
	}
	defer log.Close()
	conv, err := newConverter(b.Package, log)
	if err != nil {
		r.Err = err
		return r
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout+30*time.Second, errors.New("cannot wait longer: the test did not heed its own timeout"))
	defer cancel()
	args := testArgs(st, o, p.run)
	if p.skip != "" {
		args = append(args, "-test.skip="+p.skip)
	}
	units := m.units()
	code, err := m.Run(ctx, Command{
		User: user, Argv: append([]string{b.file()}, args...), Dir: b.in(), Env: testEnv(st, p.environment()...),
		Stdout: conv, Stderr: conv, Left: &r.Left,
	})
	r.finish(conv, code, err)
	r.Left = append(r.Left, m.leftUnits(ctx, units)...)
	for _, p := range r.Left {
		fmt.Fprintln(log, "left behind:", p)
	}
	r.Took = time.Since(start)
	return r
}

// finish takes the outcomes, and how the test binary itself ended.
func (r *testRun) finish(conv *converter, code int, err error) {
	var cerr error
	r.Outcomes, cerr = conv.close()
	r.Err = errors.Join(err, cerr)
	if r.Err == nil && code != 0 && !slices.ContainsFunc(r.Outcomes, func(o Outcome) bool { return o.Action == "fail" }) {
		r.Err = fmt.Errorf("the test binary ended with status %d, and no test had failed\n%s", code, indent(tail(r.Log, 40)))
	}
}

// converter feeds what a test binary prints to test2json.
type converter struct {
	io.Writer
	in       io.Closer
	cmd      *exec.Cmd
	outcomes chan []Outcome
	err      chan error
}

func newConverter(pkg string, log io.Writer) (*converter, error) {
	// Not under the context: it ends when its input does.
	cmd := goCommand(context.Background(), "tool", "test2json", "-t", "-p", pkg)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start test2json: %w", err)
	}
	c := &converter{Writer: in, in: in, cmd: cmd, outcomes: make(chan []Outcome, 1), err: make(chan error, 1)}
	go func() {
		o, err := collect(out, log)
		_, _ = io.Copy(io.Discard, out)
		c.outcomes <- o
		c.err <- err
	}()
	return c, nil
}

func (c *converter) close() ([]Outcome, error) {
	c.in.Close()
	o, err := <-c.outcomes, <-c.err
	return o, errors.Join(err, c.cmd.Wait())
}

// saveJournal brings a machine's journal back to the host.
func saveJournal(ctx context.Context, m *Machine, path string) error {
	log, err := createLog(path)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := m.Run(ctx, Command{Argv: []string{"journalctl", "-b", "--no-pager", "-o", "short-precise"}, Stdout: log, Stderr: log}); err != nil {
		return fmt.Errorf("cannot save the journal of %s: %w", m.Suite, err)
	}
	note("the journal of %s is in %s", m.Suite, path)
	return nil
}

func createLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("cannot make the log: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("cannot make the log: %w", err)
	}
	return f, nil
}

func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastLines(string(b), n)
}

// uniqueName keeps machines of several drivers apart.
func uniqueName(prefix string) string { return fmt.Sprintf("%s-%d-%s", prefix, os.Getpid(), nonce()) }

func nonce() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
