package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// Case 21: the parent of a job's main process is its reaper. One of lifetime
// call ends with it; of another its keeper, or who tends a service whose output is
// captured, takes over, and the code is known.
func TestKillsReaper(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		if w.isolation != verify.IsolationService { // whose parent is the manager: TestKillsParent
			f := w.run("--", "sh", "-c", "setsid sleep 1062 & kill -9 $PPID; sleep 5; exit 3")
			f.wantStatus(137)
			readReport(t, f.report).has("reason=signaled", "exit.signal=KILL", "confirmed=true", "tree.empty=true")
			gone(t, 0, "sleep", "1062")
		}
		w.want(0, "start", "-u", "orphan", "--output", "capture", "--leftovers", "wait", "--", "sh", "-c", "kill -9 $PPID; sleep .2; exit 3")
		w.want(3, "wait", "--timeout", "15s", "orphan")
		w.report("status", "orphan").has("state=settled", "exit.code=3", "confirmed=true", "tree.empty=true")
	})
}

// A call that is killed while its scope is being made leaves none: a manager that
// is given a process which has just ended would keep the scope for ever.
func TestScopeOfACallThatWasKilled(t *testing.T) {
	in(t, []string{verify.IsolationScope}, func(t *testing.T, w *ward) {
		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 5))
		name := fmt.Sprintf("early-%d-", os.Getpid())
		for i := range 60 {
			cmd := w.cmd("run", "-u", name+fmt.Sprint(i), "--stdin", "null", "--output", "null", "--", "sleep", "1073")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rnd.IntN(25000)) * time.Microsecond) // the moment is what is drawn
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		var left string
		if !eventually(func() bool { left = loadedUnits(name + "*.scope"); return left == "" }) {
			t.Errorf("seed %d: scopes are left:\n%s", seed, left)
			_ = exec.Command("systemctl", manager(), "stop", name+"*.scope").Run()
		}
		gone(t, patience, "sleep", "1073")
	})
}

// Case 22 and the keeper's part of case 18: whoever of unitward is killed, a
// detached job goes on, and its code is known as long as one of them lives.
func TestKilledKeepers(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		for _, who := range []string{"keeper", "reaper", "both"} {
			t.Run(who, func(t *testing.T) {
				w := w.again(t)
				dir := t.TempDir()
				up, leave := filepath.Join(dir, "up"), filepath.Join(dir, "leave")
				w.want(0, "start", "-u", "alone", "--", "sh", "-c", until(up, leave, 6))
				exists(t, up)
				rec := w.recordOf("alone")
				for _, p := range []struct {
					name string
					unit.Process
				}{{"reaper", rec.Reaper}, {"keeper", rec.Keeper}} {
					if p.name == who || who == "both" {
						if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
							t.Fatal(err)
						}
					}
				}
				r := w.report("status", "alone")
				if who != "both" {
					r.has("state=running", "exit.known=false")
					touch(t, leave)
					w.want(6, "wait", "--timeout", "15s", "alone")
					w.report("verify", "alone").has("confirmed=true", "exit.code=6")
					return
				}
				if !eventually(func() bool { return w.report("status", "alone").get("state") == "unknown" }) {
					t.Errorf("nobody is left to see its exit, and it is %s", w.report("status", "alone").raw)
				}
				if list := w.want(0, "list").out; !strings.Contains(list, "alone  unknown ") {
					t.Errorf("the list says otherwise: %s", list)
				}
				if !zombie(rec.Identity.PID) {
					touch(t, leave)
				} else {
					t.Error("the job ended with its keepers")
				}
				if !eventually(func() bool { return zombie(rec.Identity.PID) }) {
					t.Fatal("the job does not end")
				}
				if !eventually(func() bool {
					r = w.report("verify", "alone")
					return w.isolation == verify.IsolationGroup && strings.Contains(r.get("tree.source"), "weak evidence") || r.get("tree.empty") == "true"
				}) {
					t.Errorf("the end is not seen: %s", r.raw)
				}
				w.report("verify", "alone").has("exit.known=false", "confirmed=false", "reason=unknown")
				// A start that comes to nothing does not take its place.
				if a := w.do("start", "-u", "alone", "--require-limits", "--memory-max", "300M", "--", "true"); a.code == 125 {
					w.report("verify", "alone").has("exit.known=false", "confirmed=false", "reason=unknown")
				}
			})
		}
	})
}

// What stays with a job holds nothing of its caller's: no directory, no
// environment, no descriptor.
func TestKeeperHolds(t *testing.T) {
	in(t, kept, func(t *testing.T, w *ward) {
		dir := t.TempDir()
		c := w.cmd("start", "-u", "holds", "--output", "inherit", "--", "sleep", "1065")
		c.Dir = dir
		c.Env = append(os.Environ(), "SECRET="+secret)
		held, err := os.Create(filepath.Join(dir, "held"))
		if err != nil {
			t.Fatal(err)
		}
		defer held.Close()
		c.Stdout, c.Stderr, c.ExtraFiles = held, held, []*os.File{held}
		if err := c.Run(); err != nil {
			t.Fatal(err)
		}
		rec := w.recordOf("holds")
		for name, p := range map[string]unit.Process{"keeper": rec.Keeper, "reaper": rec.Reaper} {
			proc := fmt.Sprintf("/proc/%d/", p.PID)
			if cwd, err := os.Readlink(proc + "cwd"); err != nil || cwd != "/" {
				t.Errorf("the %s is in %s, %v", name, cwd, err)
			}
			if b, err := os.ReadFile(proc + "environ"); err != nil || bytes.Contains(b, []byte(secret)) {
				t.Errorf("the %s has the caller's environment: %q, %v", name, b, err)
			}
			fds, err := os.ReadDir(proc + "fd")
			if err != nil {
				t.Fatal(err)
			}
			for _, fd := range fds {
				if to, _ := os.Readlink(proc + "fd/" + fd.Name()); strings.HasPrefix(to, dir) {
					t.Errorf("the %s holds %s as %s", name, to, fd.Name())
				}
			}
			if sid, err := unix.Getsid(p.PID); err != nil || sid != p.PID {
				t.Errorf("the %s is in session %d, %v", name, sid, err)
			}
		}
		w.want(0, "stop", "holds")
	})
}

// Case 48: in a container whose first process reaps nobody, no zombie is ours but
// the keepers of started jobs, which nobody else could reap: doctor says so.
func TestContainerWithoutInit(t *testing.T) {
	in(t, []string{verify.IsolationCgroup, verify.IsolationGroup}, func(t *testing.T, w *ward) {
		line := func(args ...string) string { return strings.Join(w.cmd(args...).Args, " ") }
		out := withoutInit(t, `
zombies() { grep -l '^State:.Z' /proc/[0-9]*/status; }
(sleep .05 &) # nobody reaps it
until [ "$(zombies | wc -l)" = 1 ]; do sleep .01; done
one=$(zombies)
for i in 1 2 3; do
	`+line("run", "--")+` sh -c '(setsid sh -c "sleep .05" &) ; (setsid sleep 1068 &); exit 3'
	echo status $?
done
[ "$(zombies)" = "$one" ] || grep . $(zombies)
`+line("start", "-q", "-u", "ends", "--")+` sh -c '(setsid sh -c "sleep .05" &) ; (setsid sleep 1068 &); exit 3'
`+line("wait", "-q", "ends")+`
echo status $?
`+line("start", "-q", "-u", "stopped", "--")+` sleep 1068
`+line("stop", "-q", "stopped")+`
echo status $?
while ps -eo stat=,comm= | grep -q '^[^Z].* unitward'; do sleep .01; done
for file in $(zombies); do
	[ $file = $one ] || sed -n 's/^Pid:.//p' $file
done | sort -n
`+line("doctor")+` | sed -n 's/^note: .* PID 1, \([a-z]*\), .*zombie.*/doctor \1/p'
`)
		keepers := []int{w.recordOf("ends").Keeper.PID, w.recordOf("stopped").Keeper.PID}
		want := fmt.Sprintf("%sstatus 0\n%d\n%d\ndoctor cat\n", strings.Repeat("status 3\n", 4), min(keepers[0], keepers[1]), max(keepers[0], keepers[1]))
		if out != want {
			t.Errorf("it said %q, want %q", out, want)
		}
	})
}

// withoutInit runs a shell script in a pid namespace whose first process waits for
// no child, and returns what the script printed.
func withoutInit(t *testing.T, script string) string {
	t.Helper()
	options := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Geteuid() != 0 {
		options = append(options, "--user", "--map-root-user")
		if out, err := exec.Command("unshare", append(options, "true")...).CombinedOutput(); err != nil {
			t.Skipf("user: no namespaces: %v: %s", err, out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append(options, "sh", "-c", `{ sh -c "$0"; echo end; } 2>&1 & exec cat`, script)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
		said.WriteString(lines.Text() + "\n")
	}
	in.Close() // the first process ends, and all with it
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	return said.String()
}
