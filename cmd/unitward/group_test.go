package main

import (
	"encoding/json"
	"github.com/unitward/unitward/unit/launch"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

// report reads what --report wrote.
func report(t *testing.T, file string) (rep unit.Report) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, &rep)
	}
	if err != nil {
		t.Fatalf("%s: %q, %v", file, b, err)
	}
	return rep
}

// fd is a descriptor of a file, as --report has it. It is the callee's to
// close.
func fd(t *testing.T, file string) string {
	t.Helper()
	n, err := syscall.Open(file, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return "fd:" + strconv.Itoa(n)
}

// awaitKeepers waits, at the end of the test, for the keepers of jobs that were
// started: they write down the end, too.
func awaitKeepers(t *testing.T, state string) {
	t.Cleanup(func() {
		files, _ := filepath.Glob(filepath.Join(state, "jobs", "*", "job.json"))
		for _, f := range files {
			var rec unit.Record
			if b, err := os.ReadFile(f); err != nil || json.Unmarshal(b, &rec) != nil || rec.Keeper.PID == 0 {
				continue
			}
			for deadline := time.Now().Add(time.Minute); !launch.Ended(rec.Keeper); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the keeper %d of %s is still there", rec.Keeper.PID, rec.Name)
				}
			}
		}
	})
}

// What goes wrong beside a job that ran does not cost its code.
func TestCodeComesBackWithoutAReport(t *testing.T) {
	state := alone(t)
	for _, c := range []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"full", []string{"--report", "/dev/full", "--", "sh", "-c", "exit 7"}, 7, "cannot write the report"},
		{"full descriptor", []string{"--report", fd(t, "/dev/full"), "--", "sh", "-c", "exit 8"}, 8, "cannot write the report"},
		{"state removed", []string{"--", "sh", "-c", "rm -rf " + state + "; exit 9"}, 9, "cannot find job"},
		{"state removed, timeout", []string{"--timeout", "200ms", "--grace", "100ms", "--", "sh", "-c", "rm -rf " + state + "; exec sleep 30"}, 124, "cannot find job"},
	} {
		status, _, errs := do(t, append([]string{"run", "--isolation", "group"}, c.args...)...)
		if status != c.status || !strings.Contains(errs, c.says) || !strings.HasPrefix(errs, "unitward: cannot ") {
			t.Errorf("%s: status %d, %q; want %d and %q", c.name, status, errs, c.status, c.says)
		}
	}
}

func TestNothingStartedIsReported(t *testing.T) {
	state := alone(t)
	unmanaged(t)
	if err := os.WriteFile("plain", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		args   string
		status int
		says   string
	}{
		{"not found", "run --report r -u foo -- no-such-command-anywhere", 127, "not found in PATH"},
		{"not executable", "run --report r -u foo -- ./plain", 126, "permission denied"},
		{"no directory", "run --report r -u foo --working-directory nowhere -- true", 125, "cannot use the working directory"},
		{"no manager", "run --report r -u foo --isolation service -- true", 125, "cannot reach the"},
		{"no manager, start", "start --report r -u foo --isolation service -- true", 125, "cannot reach the"},
		{"no state", "run --report r -u foo --state-dir plain -- true", 125, "cannot use the state directory"},
		{"no user", "run --report r -u foo --isolation group --uid no-such-user-anywhere -- true", 125, "cannot run as"},
	} {
		os.Remove("r")
		status, _, errs := do(t, strings.Fields(c.args)...)
		rep := report(t, "r")
		if status != c.status || rep.Reason == nil || *rep.Reason != unit.ReasonStartFailed || rep.State != unit.StateSettled || rep.Name != "foo" ||
			!strings.Contains(errs, c.says) || !strings.Contains(string(rep.Exit.Source), c.says) || !rep.Confirmed || rep.Exit.Known || !rep.Tree.Empty {
			t.Errorf("%s: status %d, %q, %+v", c.name, status, errs, rep)
		}
	}
	// A mistake in the command line leaves the file as it was.
	if err := os.WriteFile("old", []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"run --report old --timeout x -- true", "run --report old", "run --report old -E =x -- true", "run --report old --nonsense -- true",
		"start --report old --lifetime call -- true"} {
		if status, _, _ := do(t, strings.Fields(args)...); status != exitError {
			t.Errorf("%s: status %d", args, status)
		}
		if b, _ := os.ReadFile("old"); string(b) != "old" {
			t.Errorf("%s: the file has %q", args, b)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("nothing was started, and it left %v", entries)
	}
}

// The mask of the caller is the job's, and nobody else's.
func TestUmaskIsTheJobs(t *testing.T) {
	state := alone(t)
	for _, mask := range []int{0o777, 0, 0o027} {
		os.RemoveAll(state)
		os.Remove("r")
		old := syscall.Umask(mask)
		status, out, errs := do(t, "run", "-u", "foo", "--isolation", "group", "--report", "r", "--", "sh", "-c", "umask")
		syscall.Umask(old)
		if want := "0" + strconv.FormatInt(int64(0o1000+mask), 8)[1:] + "\n"; status != 0 || out != want || errs != "" {
			t.Errorf("%o: status %d, %q, %q; want %q", mask, status, out, errs, want)
		}
		for path, want := range map[string]os.FileMode{"": 0o700, "jobs": 0o700, "jobs/foo": 0o700, "jobs/foo/job.json": 0o600, "jobs/foo/kept": 0o600, "../r": 0o600} {
			if info, err := os.Stat(filepath.Join(state, path)); err != nil || info.Mode().Perm() != want {
				t.Errorf("%o: %q: %v, %v; want %o", mask, path, info, err, want)
			}
		}
	}
}

func TestStartThatCannotTellItsName(t *testing.T) {
	awaitKeepers(t, alone(t))
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	start := []string{"start", "-u", "foo", "--isolation", "group", "--output", "null"}
	for _, args := range [][]string{start, append([]string{"--json"}, start...)} {
		s, read := files(t)
		s.Out = full
		status := execute(append(args, "--", "true"), s)
		_, errs := read()
		if status != exitUnconfirmed || !strings.HasPrefix(errs, "unitward: job foo was started, but: cannot print its ") || !strings.Contains(errs, "no space left") {
			t.Errorf("%v: status %d, %q", args, status, errs)
		}
		if status, _, errs := do(t, "wait", "foo"); status != 0 || errs != "" {
			t.Errorf("wait: %d, %q", status, errs)
		}
	}
	if status, out, errs := do(t, append(start, "--report", "/dev/full", "--", "true")...); status != exitUnconfirmed || out != "foo\n" || !strings.Contains(errs, "cannot write the report") {
		t.Errorf("without its report: %d, %q, %q", status, out, errs)
	}
	do(t, "wait", "foo")
}

// A closed stream is told from one that a shell sends nowhere.
func TestPerhapsClosed(t *testing.T) {
	for _, c := range []struct {
		path  string
		flags int
		want  bool
	}{
		{os.DevNull, syscall.O_RDWR, true}, // the runtime's, in the place of a closed one
		{os.DevNull, syscall.O_WRONLY, false},
		{"/dev/zero", syscall.O_RDWR, false},
		{"/dev/full", syscall.O_WRONLY, false},
	} {
		n, err := syscall.Open(c.path, c.flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(n), c.path)
		other, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := perhapsClosed(f, other); got != c.want {
			t.Errorf("%s with flags %#x: %v", c.path, c.flags, got)
		}
		if n, err = syscall.Dup(n); err != nil {
			t.Fatal(err)
		}
		shared := os.NewFile(uintptr(n), c.path)
		if perhapsClosed(f, other, shared) {
			t.Errorf("%s with flags %#x, shared by two streams", c.path, c.flags)
		}
		for _, f := range []*os.File{f, other, shared} {
			f.Close()
		}
	}
}

// One name that is wrong does not stop the rest, and none is done twice.
func TestOneBadNameStopsNoOther(t *testing.T) {
	awaitKeepers(t, alone(t))
	start := func(name string) {
		t.Helper()
		if status, _, errs := do(t, "start", "-u", name, "--isolation", "group", "--output", "null", "--", "sleep", "300"); status != 0 {
			t.Fatalf("start %s: %d, %s", name, status, errs)
		}
	}
	start("a")
	start("b")
	t.Cleanup(func() { do(t, "stop", "--grace", "0s", "a", "b") })
	count := func(text, what string) int { return strings.Count(text, what) }
	status, out, errs := do(t, "status", "nope", "a", "x y/z", "b", "a.service")
	if status != exitError || count(out, "running") != 2 || count(errs, "cannot find job nope") != 1 || count(errs, `cannot find job x\x20y-z`) != 1 {
		t.Errorf("status: %d, %q, %q", status, out, errs)
	}
	for _, verb := range []string{"pause", "resume"} {
		if status, _, errs := do(t, verb, "nope", "a", "a.service"); status != exitError || count(errs, "unitward: ") != 1 {
			t.Errorf("%s: %d, %q", verb, status, errs)
		}
	}
	if status, out, _ := do(t, "--json", "wait", "--timeout", "50ms", "nope", "a", "b"); status != exitError || count(out, `"state":"running"`) != 2 || count(out, `"error"`) != 1 {
		t.Errorf("wait: %d, %q", status, out)
	}
	if status, _, errs := do(t, "wait", "--timeout", "50ms", "a", "b"); status != exitTimeout || count(errs, "cannot wait any longer") != 2 {
		t.Errorf("wait: %d, %q", status, errs)
	}
	if status, _, errs := do(t, "kill", "nope", "a", "a"); status != exitError || count(errs, "unitward: ") != 1 {
		t.Errorf("kill: %d, %q", status, errs)
	}
	if status, _, _ := do(t, "wait", "a", "a.service"); status != 143 {
		t.Errorf("wait for one that was killed: %d", status)
	}
	status, out, errs = do(t, "stop", "nope", "b", "b.service")
	if status != exitError || count(out, "b: stopped by TERM") != 1 || count(out, "\n") != 1 || count(errs, "unitward: ") != 1 {
		t.Errorf("stop: %d, %q, %q", status, out, errs)
	}
	if status, out, errs := do(t, "stop", "a", "b"); status != 0 || count(out, "had already ended") != 2 || errs != "" {
		t.Errorf("stop: %d, %q, %q", status, out, errs)
	}
}
