// bench measures unitward beside its peers on a machine with systemd, and prints
// one table with what each figure ought to be. The README beside it says how.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bench is one run, in one suite as one user.
type bench struct {
	// unitward is what is measured, self this program, nothing the one that
	// does nothing.
	unitward, self, nothing string
	// manager is the option that names the manager: --user or --system.
	manager string
	// dir is for whatever is written, and is removed at the end; disk is a
	// directory on a disk, empty where there is none.
	dir, disk string
	n         int
	floodFor  time.Duration
	rows      []row
}

// parts are what can be measured, by name.
var parts = map[string]func(*bench) error{
	"latency": (*bench).latency,
	"rate":    (*bench).rate,
	"verdict": (*bench).verdict,
	"memory":  (*bench).memory,
	"live":    (*bench).live,
	"loaded":  (*bench).loaded,
	"many":    (*bench).many,
	"serve":   (*bench).serve,
	"flood":   (*bench).flood,
}

func main() {
	n := flag.Int("n", 40, "rounds of each contest of single commands")
	label := flag.String("label", "", "what the rows are about")
	what := flag.String("what", "latency,rate,verdict,memory,live,loaded", "what is measured, in a list; there are many, serve and flood, too")
	floodFor := flag.Duration("flood", time.Minute, "how long output is written")
	disk := flag.String("disk", "", "a directory on a disk, for the state directory of the ugly case")
	asJSON := flag.Bool("json", false, "write what was measured to standard output, and the table to standard error")
	compare := flag.Bool("compare", false, "compare two files of earlier runs: -compare OLD NEW")
	flag.Parse()
	if *compare {
		if flag.NArg() != 2 {
			fail(errors.New("cannot compare: name two files"))
		}
		if err := compareFiles(os.Stdout, flag.Arg(0), flag.Arg(1)); err != nil {
			fail(err)
		}
		return
	}
	if name, args := flag.Arg(0), flag.Args(); name != "" {
		if err := subprogram(name, args[1:]); err != nil {
			fail(err)
		}
		return
	}
	if err := enterScope(); err != nil {
		fail(err)
	}
	b := &bench{n: *n, floodFor: *floodFor, disk: *disk}
	d, err := b.run(*label, strings.Split(*what, ","))
	if d != nil {
		err = errors.Join(d.write(*asJSON), err)
	}
	if err != nil {
		fail(err)
	}
}

// subprogram is what the benchmark starts of itself.
func subprogram(name string, args []string) error {
	if name == "bare" && len(args) == 1 {
		return bareOnce(args[0])
	}
	return fmt.Errorf("cannot understand %q", name)
}

// write prints the document.
func (d *document) write(asJSON bool) error {
	if !asJSON {
		return d.print(os.Stdout)
	}
	return errors.Join(d.print(os.Stderr), json.NewEncoder(os.Stdout).Encode(d))
}

// run measures what is named. What fails does not keep it from the rest.
func (b *bench) run(label string, names []string) (_ *document, err error) {
	for _, name := range names {
		if parts[name] == nil {
			return nil, fmt.Errorf("cannot measure %q", name)
		}
	}
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	b.unitward, b.nothing = os.Getenv("UNITWARD_BIN"), os.Getenv("UNITWARD_BENCH_NOTHING")
	b.manager = "--user"
	if os.Geteuid() == 0 {
		b.manager = "--system"
	}
	if b.dir, err = os.MkdirTemp("", "unitward-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.tidy()) }()
	// The records go with the rest, and commands of every kind find them there.
	if err := os.Setenv("UNITWARD_STATE_DIR", filepath.Join(b.dir, "state")); err != nil {
		return nil, err
	}
	d := &document{Label: label, When: time.Now().Format(time.RFC3339), Kernel: kernel(), CPUs: runtime.NumCPU(), LoadBefore: load()}
	var failed error
	for _, name := range names {
		began := time.Now()
		err := parts[name](b)
		fmt.Fprintf(os.Stderr, "bench: %s: %s after %.1f s, load %.2f\n", label, name, time.Since(began).Seconds(), load())
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("cannot measure %s: %w", name, err))
		}
	}
	d.Rows, d.LoadAfter = b.rows, load()
	return d, failed
}

// tidy removes what was written. The last job of `start` may still be writing
// its end.
func (b *bench) tidy() (err error) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = os.RemoveAll(b.dir); err == nil {
			return nil
		}
	}
	return err
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "bench: %v\n", err)
	os.Exit(1)
}

// enterScope puts an ordinary user's benchmark where his programs are: in a
// scope of his own manager. From a cgroup of root's, as the rig's own, no
// process of a user can get into another one.
func enterScope() error {
	const variable = "UNITWARD_BENCH_IN_SCOPE"
	if os.Geteuid() == 0 || os.Getenv(variable) != "" {
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path, err := exec.LookPath("systemd-run")
	if err != nil {
		return err
	}
	argv := append([]string{path, "--user", "--scope", "--collect", "--quiet", "--", self}, os.Args[1:]...)
	return syscall.Exec(path, argv, append(os.Environ(), variable+"=1"))
}

// load is the load average over a minute, of the whole host; 0 where it cannot
// be read.
func load() (one float64) {
	if s, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(s), &one)
	}
	return one
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "an unknown kernel"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}
