package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

// ours are the processes that execute the program under test with this state
// directory, but those that are named.
func (w *ward) ours(but ...int) []int {
	w.t.Helper()
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		var pid int
		fmt.Sscan(filepath.Base(d), &pid)
		exe, err := os.Readlink(d + "/exe")
		line, lerr := os.ReadFile(d + "/cmdline")
		if err == nil && lerr == nil && exe == program(w.t) && strings.Contains(string(line), w.state) && !slices.Contains(but, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lines are how many lines of output the job's report tells of, two bytes each.
func (w *ward) lines(name string) (n int) {
	w.t.Helper()
	fmt.Sscan(w.report("status", name).get("streams.stdout_bytes"), &n)
	return n / 2
}

// onDisk is what the captured output of a job takes there.
func (w *ward) onDisk(name string) (sum int64) {
	w.t.Helper()
	for _, stream := range []string{"stdout*", "stderr*"} {
		files, _ := filepath.Glob(filepath.Join(w.state, "jobs", name, stream))
		for _, f := range files {
			var st unix.Stat_t
			if unix.Stat(f, &st) == nil { // what is being replaced is gone
				sum += st.Blocks * 512
			}
		}
	}
	return sum
}

// Case 22: everything of unitward but who stays with the job is killed: the job
// goes on, and so does its output. Where its keeper is outside of the unit and is
// killed too, the job goes on, and what is lost of its output is said: all after so
// many bytes. Where its reaper is killed as well nobody reads what it writes, and it
// ends by that; its exit is lost, but for one that writes elsewhere nothing changes.
func TestOutputGoesOn(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		file := filepath.Join(dir, "file")
		w.want(0, "start", "-u", "talks", "--output", "capture", "--", "sh", "-c", "while :; do echo x; sleep .05; done")
		follower, waiter := w.begin(w.cmd("logs", "-f", "talks")), w.waiting("talks")
		if !eventually(func() bool { return w.lines("talks") > 2 && len(follower.said()) > 2 }) {
			t.Fatal("it says nothing")
		}
		rec := w.recordOf("talks")
		killed := w.ours(w.staying(rec)...)
		if len(killed) < 2 {
			t.Errorf("killed are %v: reader and waiter are not among them", killed)
		}
		for _, pid := range killed {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
		follower.status()
		waiter.status()
		before := w.lines("talks")
		if !eventually(func() bool { return w.lines("talks") > before+2 }) {
			t.Errorf("its output does not go on: %s", w.report("status", "talks").raw)
		}
		w.report("status", "talks").has("state=running", "exit.known=false", "streams.state=open")
		if w.isolation == verify.IsolationService {
			w.want(0, "stop", "talks")
			w.report("status", "talks").has("confirmed=true", "reason=cancelled")
			return
		}
		w.want(0, "stop", "talks")
		w.silenced(dir)
		w.bereft("bereft-null", "null", file, "while :; do echo x; echo x >>"+file+"; sleep .05; done")
		w.bereft("bereft-file", "capture", file, "while :; do echo x >>"+file+"; sleep .05; done")
	})
}

// silenced kills the keeper of a job that writes more than a pipe takes.
func (w *ward) silenced(dir string) {
	w.t.Helper()
	up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
	w.want(0, "start", "-u", "silenced", "--output", "capture", "--", "sh", "-c",
		"echo first; touch "+up+"; while ! [ -e "+leave+" ]; do sleep .02; done; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 6")
	exists(w.t, up)
	if !eventually(func() bool { return w.report("status", "silenced").get("streams.stdout_bytes") == "6" }) {
		w.t.Fatal("its output is not kept")
	}
	w.kill(w.recordOf("silenced").Keeper)
	w.report("status", "silenced").has("state=running", "streams.state=lost", "streams.stdout_bytes=6", "streams.stderr_bytes=0")
	touch(w.t, leave)
	w.want(6, "wait", "--timeout", "15s", "silenced")
	w.report("status", "silenced").has("confirmed=true", "exit.code=6", "streams.state=lost", "streams.stdout_bytes=6", "streams.stderr_bytes=0")
	if a := w.want(0, "status", "silenced"); !strings.Contains(a.out, "lost after 6 bytes of stdout and 0 of stderr") {
		w.t.Errorf("want what is lost of %s", a)
	}
	if a := w.want(0, "logs", "silenced"); a.out != "first\n" || !strings.Contains(a.err, "what came after this is lost") {
		w.t.Errorf("want what is lost of %s", a)
	}
}

// bereft kills keeper and reaper of a job whose writing is seen in a file.
func (w *ward) bereft(name, output, file, script string) {
	w.t.Helper()
	w.want(0, "start", "-u", name, "--output", output, "--", "sh", "-c", script)
	exists(w.t, file)
	rec := w.recordOf(name)
	w.kill(rec.Keeper)
	w.kill(rec.Reaper)
	before := lineCount(w.t, file)
	if !eventually(func() bool { return lineCount(w.t, file) > before+2 }) {
		w.t.Errorf("%s does not go on", name)
	}
	w.report("status", name).has("state=unknown", "exit.known=false", "tree.empty=false")
	w.want(123, "stop", "--grace", "1s", name)
	w.report("verify", name).has("exit.known=false", "confirmed=false")
	os.Remove(file)
}

// kill is SIGKILL to a recorded process, and waits until that has ended.
func (w *ward) kill(p unit.Process) {
	w.t.Helper()
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	w.ended(p)
}

// ended waits until a process that was killed has ended.
func (w *ward) ended(p unit.Process) {
	w.t.Helper()
	if !eventually(func() bool { return launch.Ended(p) }) {
		w.t.Fatalf("process %d does not end", p.PID)
	}
}

// staying are the processes of unitward that stay with a running job whose output
// is captured: its reaper, and its keeper or who tends it for the manager. The
// command lines of those of a service have no state directory.
func (w *ward) staying(rec *unit.Record) []int {
	w.t.Helper()
	if w.isolation != verify.IsolationService {
		return []int{rec.Reaper.PID, rec.Keeper.PID}
	}
	reaper, err := parentOf(rec.Identity.PID)
	if err != nil {
		w.t.Fatal(err)
	}
	tender, err := parentOf(reaper)
	if err != nil || tender <= 1 {
		w.t.Fatalf("process %d has the parent %d: %v", reaper, tender, err)
	}
	return []int{reaper, tender}
}

func parentOf(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "\nPPid:\t")
	var parent int
	_, err = fmt.Sscan(rest, &parent)
	return parent, err
}

// Case 23: no more than the cap is on disk, whoever is dead, and the rest is
// counted.
func TestCapHolds(t *testing.T) {
	const most = 10 << 20
	in(t, all, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "flood", "--output", "capture", "--output-max", "10M", "--", "yes")
		for _, pid := range w.ours() {
			if rec := w.recordOf("flood"); pid != rec.Keeper.PID && pid != rec.Reaper.PID && w.isolation != verify.IsolationService {
				t.Errorf("process %d is left of a start", pid)
			}
		}
		var seen int64
		if !eventually(func() bool {
			if disk := w.onDisk("flood"); disk > most {
				t.Errorf("%d bytes are on disk, at most %d may be", disk, most)
			}
			fmt.Sscan(w.report("status", "flood").get("streams.stdout_bytes"), &seen)
			return seen > 10*most
		}) {
			t.Fatalf("%d bytes came", seen)
		}
		w.want(0, "stop", "--grace", "1s", "flood")
		r := w.report("status", "flood")
		r.has("confirmed=true", "streams.state=closed", "streams.stderr_bytes=0")
		var dropped int64
		fmt.Sscan(r.get("streams.stdout_bytes"), &seen)
		fmt.Sscan(r.get("streams.dropped_bytes"), &dropped)
		if disk := w.onDisk("flood"); disk > most || dropped < seen-most || dropped >= seen {
			t.Errorf("of %d bytes %d were dropped, and %d are on disk", seen, dropped, disk)
		}
		a := w.want(0, "logs", "--stream", "stdout", "--tail", "3", "flood")
		if a.out != "y\ny\ny\n" {
			t.Errorf("its tail is %q", a.out)
		}
	})
}

// Case 24: much output costs no process of unitward memory, whether it is kept
// or passed on.
func TestFlatMemory(t *testing.T) {
	const most = 30 << 10 // KiB
	in(t, all, func(t *testing.T, w *ward) {
		for name, c := range map[string]struct {
			output string
			bytes  string
		}{"passed on": {"inherit", "1G"}, "kept": {"capture", "256M"}} {
			t.Run(name, func(t *testing.T) {
				w := w.again(t)
				null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
				if err != nil {
					t.Fatal(err)
				}
				defer null.Close()
				dir := t.TempDir()
				up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
				cmd := w.cmd("run", "-u", "much", "--output", c.output, "--", "sh", "-c",
					"touch "+up+"; while ! [ -e "+leave+" ]; do sleep .01; done; exec head -c "+c.bytes+" /dev/zero")
				cmd.Stdout = null
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				exists(t, up)
				// Who looks before its launcher has recorded it takes who tends it for it.
				if !eventually(func() bool {
					comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", w.recordOf("much").Identity.PID))
					return string(comm) == "sh\n"
				}) {
					t.Fatal("its start is not recorded")
				}
				all := []int{cmd.Process.Pid}
				if w.isolation != verify.IsolationService || c.output == "capture" {
					all = append(all, w.staying(w.recordOf("much"))...)
				}
				touch(t, leave)
				peak := map[int]int{}
				over := false
				for !over {
					select {
					case err := <-ended:
						if err != nil {
							t.Fatal(err)
						}
						over = true
					case <-time.After(10 * time.Millisecond): // what is read is a peak
						for _, pid := range append(w.ours(all...), all...) {
							peak[pid] = max(peak[pid], peakMemory(pid))
						}
					}
				}
				for _, pid := range all {
					if peak[pid] == 0 {
						t.Errorf("process %d was not measured", pid)
					}
				}
				for pid, kib := range peak {
					if kib > most {
						t.Errorf("process %d had %d KiB", pid, kib)
					}
				}
				t.Logf("peaks in KiB: %v", peak)
			})
		}
	})
}

// peakMemory is the largest resident set of a process in KiB; 0 once it is gone.
func peakMemory(pid int) (kib int) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(b), "\nVmHWM:")
	fmt.Sscan(rest, &kib)
	return kib
}

// Case 25: whoever follows the output is killed: nothing is left of him, and the
// job does not notice.
func TestReaderKilled(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
		w.want(0, "start", "-u", "read", "--output", "capture", "--", "sh", "-c", "echo first; "+until(up, leave, 6))
		exists(t, up)
		before := w.ours()
		f := w.begin(w.cmd("logs", "-f", "read"))
		if !eventually(func() bool { return f.said() == "first\n" }) {
			t.Fatalf("it prints %q", f.said())
		}
		f.signal(syscall.SIGKILL)
		f.status()
		if after := w.ours(before...); len(after) > 0 {
			t.Errorf("processes are left: %v", after)
		}
		w.report("status", "read").has("state=running")
		touch(t, leave)
		w.want(6, "wait", "--timeout", "15s", "read")
		if a := w.want(0, "logs", "read"); a.out != "first\n" {
			t.Errorf("its output is %q", a.out)
		}
	})
}
