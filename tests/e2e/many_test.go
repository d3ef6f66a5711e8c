package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// inParallel does n things, a few at a time.
func inParallel(width, n int, do func(i int) error) error {
	var mu sync.Mutex
	var first error
	var wg sync.WaitGroup
	next := make(chan int)
	for range width {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		}()
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	return first
}

// runs is how many runs a test makes: UNITWARD_TEST_RUNS, or few, where no manager
// is asked and root runs it alone a thousand.
func (w *ward) runs(few int) int {
	w.t.Helper()
	if s := os.Getenv("UNITWARD_TEST_RUNS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			w.t.Fatal(err)
		}
		return n
	}
	if !inRig() && os.Geteuid() == 0 && !testing.Short() {
		return 1000
	}
	return few
}

// A name is free as soon as its run has returned.
func TestManyOfOneName(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for range 20 {
			w.want(3, "run", "-u", "again", "--", "sh", "-c", "exit 3")
		}
	})
}

// Case 30: a code is never lost, one after the other and 8 at a time.
func TestManyCodes(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		runs := w.runs(40)
		for _, width := range []int{1, 8} {
			t.Run(fmt.Sprint(width), func(t *testing.T) {
				w := w.again(t)
				err := inParallel(width, runs, func(i int) error {
					a, err := perform(w.cmd("run", "--", "sh", "-c", "exit 5"))
					if err == nil && (a.code != 5 || a.err != "") {
						err = fmt.Errorf("run %d: want status 5 and no word, of %s", i, a)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}

// footprint is what runs must not add to.
type footprint struct {
	units, cgroups, files, processes []string
	descriptors                      int // of the manager; -1 where they cannot be read
}

func takeFootprint(t *testing.T) footprint {
	t.Helper()
	f := footprint{files: runtimeFiles(), descriptors: -1, cgroups: jobCgroups("unitward")}
	f.processes = ownProcesses()
	if !inRig() { // others have processes and files here, too
		f.processes = slices.DeleteFunc(f.processes, func(p string) bool {
			pid, _, _ := strings.Cut(p, " ")
			exe, err := os.Readlink("/proc/" + pid + "/exe")
			return err != nil || exe != program(t)
		})
		return f
	}
	temporary, _ := filepath.Glob("/tmp/*")
	f.files = append(f.files, temporary...)
	for line := range strings.Lines(loadedUnits()) {
		if fields := strings.Fields(line); len(fields) > 0 {
			f.units = append(f.units, fields[0])
		}
	}
	if fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", managerPID(t))); err == nil {
		f.descriptors = len(fds)
	}
	return f
}

// jobCgroups are the cgroups with a word in their path.
func jobCgroups(word string) []string {
	var found []string
	mount := cgroupMount()
	filepath.WalkDir(mount, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(strings.TrimPrefix(path, mount), word) && !strings.Contains(path, "unitward-rig-") {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// ownProcesses are those of this user in this pid namespace.
func ownProcesses() []string {
	var found []string
	here, _ := os.Readlink("/proc/self/ns/pid")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		b, err := os.ReadFile(d + "/status")
		name, _, _ := strings.Cut(string(b), "\n")
		there, nerr := os.Readlink(d + "/ns/pid")
		if err == nil && strings.Contains(string(b), fmt.Sprintf("\nUid:\t%d\t", os.Geteuid())) && (nerr != nil || there == here) {
			found = append(found, filepath.Base(d)+" "+strings.TrimPrefix(name, "Name:\t"))
		}
	}
	return found
}

// managerPID is the process of the manager under test.
func managerPID(t testing.TB) int {
	t.Helper()
	if os.Geteuid() == 0 {
		return 1
	}
	return userManagerPID(t, os.Geteuid())
}

// userManagerPID finds the systemd of a user.
func userManagerPID(t testing.TB, uid int) int {
	t.Helper()
	var pid int
	out := shell(t, "systemctl", "--system", "show", "-p", "MainPID", "--value", fmt.Sprintf("user@%d.service", uid))
	if _, err := fmt.Sscan(out, &pid); err != nil || pid <= 1 {
		t.Fatalf("no user manager of %d: %q", uid, out)
	}
	return pid
}

func added(before, after []string) []string {
	have := map[string]bool{}
	for _, s := range before {
		have[s] = true
	}
	var more []string
	for _, s := range after {
		if !have[s] {
			more = append(more, s)
		}
	}
	return more
}

// Case 50: runs leave nothing but their settled records.
func TestManyLeaveNothing(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		runs := w.runs(60)
		temporary := t.TempDir()
		w.env = append(os.Environ(), "TMPDIR="+temporary)
		w.want(0, "run", "--", "true") // the slice and the directories are there
		kinds := []struct {
			want int
			args []string
		}{
			{0, []string{"run", "--", "true"}},
			{7, []string{"run", "--", "sh", "-c", "exit 7"}},
			{143, []string{"run", "--", "sh", "-c", "kill $$"}},
			{127, []string{"run", "--", "/no/such/program"}},
			{0, []string{"run", "--", "sh", "-c", "setsid sleep 1050 >/dev/null 2>&1 & exit 0"}},
			{4, []string{"run", "-E", "X=\xff", "--", "sh", "-c", "exit 4"}},
		}
		eventually(func() bool { return !inRig() || loadedUnits("unitward-*.service", "unitward-*.scope") == "" })
		before := takeFootprint(t)
		err := inParallel(8, runs, func(i int) error {
			k := kinds[i%len(kinds)]
			if i%60 == 59 {
				k.want, k.args = 124, []string{"run", "--timeout", "300ms", "--", "sleep", "1051"}
			}
			a, err := perform(w.cmd(k.args...))
			if err == nil && a.code != k.want {
				err = fmt.Errorf("run %d: want status %d of %s", i, k.want, a)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		var after footprint
		var more string
		clean := func() bool {
			after = takeFootprint(t)
			more = ""
			for _, kind := range [][2][]string{{before.units, after.units}, {before.cgroups, after.cgroups}, {before.files, after.files}} {
				if a := added(kind[0], kind[1]); len(a) > 0 {
					more += fmt.Sprintf("%q\n", a)
				}
			}
			if len(after.processes) > len(before.processes) {
				more += fmt.Sprintf("processes %q\n", added(before.processes, after.processes))
			}
			// The manager opens one now and then for itself: a watch, a bus peer.
			if after.descriptors > before.descriptors+3 {
				more += fmt.Sprintf("descriptors of the manager: %d, were %d\n", after.descriptors, before.descriptors)
			}
			return more == ""
		}
		if !eventually(clean) {
			t.Errorf("after %d runs there is more:\n%s", runs, more)
		}
		t.Logf("descriptors of the manager: %d, then %d; processes %d, then %d", before.descriptors, after.descriptors, len(before.processes), len(after.processes))
		if left := w.want(0, "--json", "list").out; left != "[]\n" {
			t.Errorf("jobs are not settled: %s", left)
		}
		if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
			t.Errorf("temporary files are left: %v, %v", left, err)
		}
		var settled []struct{ Name string }
		if err := json.Unmarshal([]byte(w.want(0, "--json", "list", "--all").out), &settled); err != nil {
			t.Fatal(err)
		}
		records := []string{".tidied"} // when settled records were last removed
		for _, job := range settled {
			records = append(records, job.Name)
		}
		entries, err := os.ReadDir(filepath.Join(w.state, "jobs"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !slices.Contains(records, e.Name()) {
				t.Errorf("%s is left beside the jobs", e.Name())
			}
		}
		// What did not start has no record.
		if want := 1 + runs - (runs+2)/len(kinds); len(settled) != want && runs <= 1000 {
			t.Errorf("of %d runs there are %d settled jobs, want %d", runs, len(settled), want)
		}
	})
}
