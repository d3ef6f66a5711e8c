package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/unitward/unitward/verify"
)

// Case 10: a member that belongs to another user, and ignores TERM.
func TestMemberOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("user: only root can make a process of another user; TestRootInUsersJob, as root, puts one into a user's job")
	}
	in(t, all, memberOfAnotherUser)
}

func memberOfAnotherUser(t *testing.T, w *ward) {
	w.want(0, "start", "-u", "other-uid", "--", "sh", "-c",
		`setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'trap "" TERM; exec sleep 1010' & wait`)
	pid := alive(t, "sleep", "1010")
	if uid := ownerOf(t, pid); uid != "1000" {
		t.Fatalf("the member belongs to %s", uid)
	}
	r := w.report("stop", "--grace", "300ms", "other-uid")
	gone(t, 0, "sleep", "1010")
	r.has("state=settled", "confirmed=true", "reason=cancelled", "tree.empty=true", "stop.by=stop", "stop.steps.0.action=TERM", "stop.steps.1.action=KILL", "stop.steps.1.sufficed=true")
	w.want(0, "verify", "other-uid")
}

// Case 10, the other way round: in a user's job a process that became root,
// which neither the user nor the user's manager may signal.
func TestRootInUsersJob(t *testing.T) {
	needRig(t)
	if os.Geteuid() != 0 {
		t.Skip("user: only root can make a set-user-ID program; it does so in this test, for a job of this user")
	}
	in(t, []string{verify.IsolationService, verify.IsolationScope, verify.IsolationCgroup, verify.IsolationGroup}, rootInUsersJob)
}

func rootInUsersJob(t *testing.T, root *ward) {
	dir := testerDir(t)
	become := filepath.Join(dir, "become-root")
	shell(t, "cp", shell(t, "sh", "-c", "printf %s $(command -v setpriv)"), become)
	shell(t, "chmod", "4755", become)
	w := asTester(t, dir)
	w.isolation, w.scope = root.isolation, root.isolation == verify.IsolationCgroup
	w.want(0, "start", "-u", "root-member", "--", "sh", "-c",
		become+` --reuid 0 --regid 0 --clear-groups sh -c 'trap "" TERM; exec sleep 1011' & wait`)
	pid := alive(t, "sleep", "1011")
	if uid := ownerOf(t, pid); uid != "0" {
		t.Fatalf("the member belongs to %s", uid)
	}
	r := w.report("stop", "--grace", "300ms", "root-member")
	if w.isolation == verify.IsolationGroup {
		// Nobody but root can end it, and that is said.
		alive(t, "sleep", "1011")
		r.has("confirmed=false", "tree.empty=false", "tree.members.0.command=sleep 1011")
		foreign := fmt.Sprintf(`"looked":"signal 0 to group %s","said":"returned EPERM`, r.get("pid"))
		if !strings.Contains(r.raw, "refused it") || !strings.Contains(r.get("missing"), foreign) {
			t.Errorf("it is not said that a process refuses, by %s: %s", foreign, r.raw)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		w.want(143, "wait", "--timeout", "15s", "root-member")
		w.want(0, "verify", "root-member")
		return
	}
	gone(t, 0, "sleep", "1011")
	r.has("state=settled", "confirmed=true", "reason=cancelled", "tree.empty=true")
	w.want(0, "verify", "root-member")
}

// ownerOf is the real uid of a process.
func ownerOf(t testing.TB, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\nUid:\t")
	uid, _, _ := strings.Cut(rest, "\t")
	return uid
}

// testerDir is a directory of the ordinary user of the rig, on a file system
// that has set-user-ID programs.
func testerDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/home/tester", "e2e")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asUser begins a command line by which root acts as the ordinary user.
func asUser() []string {
	return []string{
		"setpriv", "--reuid", "1000", "--regid", "1000", "--init-groups", "env", "-i", "HOME=/home/tester", "USER=tester", "LOGNAME=tester",
		"PATH=" + os.Getenv("PATH"), "XDG_RUNTIME_DIR=/run/user/1000",
	}
}

// asTester is unitward as root lets the ordinary user run it.
func asTester(t *testing.T, dir string) *ward {
	t.Helper()
	w := newWard(t)
	w.state = filepath.Join(dir, "state")
	w.before = asUser()
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		w.before = append(w.before, "GOCOVERDIR="+dir)
	}
	return w
}

// tamper changes the identity in a job's record and returns what undoes it.
func (w *ward) tamper(name string, change func(identity map[string]any)) (undo func()) {
	w.t.Helper()
	file := filepath.Join(w.state, "jobs", name, "job.json")
	was, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(was)))
	d.UseNumber()
	var rec map[string]any
	if err := d.Decode(&rec); err != nil {
		w.t.Fatal(err)
	}
	change(rec["identity"].(map[string]any))
	b, err := json.Marshal(rec)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		if err := os.WriteFile(file, was, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// Case 37: a record that is not of what is there authorises nothing.
func TestTamperedRecord(t *testing.T) {
	in(t, all, tamperedRecord)
}

func tamperedRecord(t *testing.T, w *ward) {
	managed := []string{verify.IsolationService, verify.IsolationScope}
	for i, c := range []struct {
		field      string
		value      any
		says       string
		isolations []string
	}{
		{"invocation_id", "0123456789abcdef0123456789abcdef", "InvocationID is", managed},
		{"cgroup_inode", json.Number("4294967295"), "another cgroup stands at", all[:3]},
		{"start_time", json.Number("1"), "", []string{verify.IsolationGroup}},
		{"pid_namespace", json.Number("1"), "", []string{verify.IsolationGroup}},
		{"uid", json.Number("4711"), "uid 4711", all},
		{"host", "0123456789abcdef0123456789abcdef", "host 0123456789abcdef0123456789abcdef", all},
		{"boot_id", "0123456789abcdef0123456789abcdef", "", all},
	} {
		if !slices.Contains(c.isolations, w.isolation) || c.field == "cgroup_inode" && cgroupMount() == "" {
			continue // that of a cgroup v1 is not recorded
		}
		t.Run(c.field, func(t *testing.T) {
			w := w.again(t)
			mark := fmt.Sprint(1370 + i)
			name := "tampered-" + mark
			log := filepath.Join(t.TempDir(), "signals")
			w.want(0, "start", "-u", name, "--", "sh", "-c",
				fmt.Sprintf("trap 'echo TERM >>%s; exit' TERM; trap 'echo USR1 >>%s' USR1; sleep %s & wait; wait; wait", log, log, mark))
			pid := alive(t, "sleep", mark)
			undo := w.tamper(name, func(id map[string]any) {
				if _, ok := id[c.field]; !ok {
					t.Fatalf("the record has no %s", c.field)
				}
				id[c.field] = c.value
			})
			// The cleanup must find the job again, also when a check fails.
			t.Cleanup(func() { w.stopAll() })
			t.Cleanup(undo)
			verdict := w.do("--json", "verify", name)
			if verdict.code != 123 {
				t.Errorf("want status 123 of %s", verdict)
			}
			parseReport(t, verdict.out).has("confirmed=false")
			for _, verb := range [][]string{{"stop", "--grace", "0s"}, {"kill", "-s", "USR1", "--who", "all"}, {"pause"}, {"resume"}} {
				a := w.do(append(verb, name)...)
				if a.code == 0 || !strings.Contains(a.err, c.says) {
					t.Errorf("want a refusal with %q of %s", c.says, a)
				}
			}
			if b, err := os.ReadFile(log); err == nil {
				t.Errorf("signals came: %s", b)
			}
			if got := processes([]string{"sleep", mark}); !slices.Equal(got, []int{pid}) {
				t.Errorf("the process is %v, was %d", got, pid)
			}
			if t.Failed() {
				return
			}
			undo()
			w.want(0, "kill", "-s", "USR1", name)
			exists(t, log) // so a signal would have been seen
			w.want(0, "stop", "--grace", "1s", name)
			gone(t, 0, "sleep", mark)
		})
	}
}

// Case 37: a unit that took the name of one that is gone is not the job.
func TestNameTaken(t *testing.T) {
	for i, slice := range []string{"", "same"} {
		t.Run("slice "+slice, func(t *testing.T) {
			w := newWard(t)
			name := fmt.Sprint("taken-", i)
			unit := name + ".service"
			mine, other := []string{"sleep", fmt.Sprint(1384 + 2*i)}, []string{sleepPath(t), fmt.Sprint(1385 + 2*i)}
			w.want(0, append([]string{"start", "-u", name, "--"}, mine...)...)
			if err := syscall.Kill(alive(t, mine...), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			gone(t, patience, mine...)
			if left := ""; !eventually(func() bool { left = loadedUnits(unit); return left == "" }) {
				t.Fatalf("still loaded: %s", left)
			}
			args := []string{manager(), "-q", "--unit", unit, "--collect"}
			if slice != "" {
				s := "unitward.slice"
				if os.Geteuid() != 0 {
					s = "app-unitward.slice"
				}
				args = append(args, "--slice", s)
			}
			t.Cleanup(func() { exec.Command("systemctl", manager(), "stop", unit).Run() })
			shell(t, append(append([]string{"systemd-run"}, args...), other...)...)
			pid := alive(t, other...)

			verdict := w.do("--json", "verify", name)
			r := parseReport(t, verdict.out)
			// With a cgroup of its own the other unit says nothing of ours.
			if slice == "same" && verdict.code != 123 || (verdict.code == 0) != (r.get("confirmed") == "true") {
				t.Errorf("status %d: %s", verdict.code, verdict)
			}
			if r.get("confirmed") == "true" {
				r.has("exit.signal=KILL", "tree.empty=true")
			} else {
				for _, verb := range [][]string{{"stop", "--grace", "0s"}, {"wait", "--timeout", "5s"}} {
					if a := w.do(append(verb, name)...); a.code == 0 || a.code == 124 {
						t.Errorf("want a refusal of %s", a)
					}
				}
			}
			for _, verb := range [][]string{{"stop", "--grace", "0s"}, {"kill", "-s", "KILL", "--who", "all"}, {"pause"}, {"verify"}, {"status"}} {
				w.do(append(verb, name)...)
			}
			if got := processes(other); !slices.Equal(got, []int{pid}) {
				t.Fatalf("the other unit's process is %v, was %d", got, pid)
			}
			if state := strings.TrimSpace(shell(t, "systemctl", manager(), "show", "-p", "ActiveState", "--value", unit)); state != "active" {
				t.Errorf("the other unit is %s", state)
			}
			// Once the name is free again, the recorder's word counts.
			shell(t, "systemctl", manager(), "stop", unit)
			w.report("verify", name).has("confirmed=true", "exit.signal=KILL", "tree.empty=true")
		})
	}
}

// Case 37: a scope that took the name of one whose keepers were killed with it is not
// the job, also where it stands at the same place.
func TestScopeNameTaken(t *testing.T) {
	in(t, []string{verify.IsolationScope}, func(t *testing.T, w *ward) {
		w.want(0, "start", "-u", "taken-scope", "--", "sleep", "1390")
		rec := w.recordOf("taken-scope")
		for _, pid := range append(w.staying(rec), rec.Identity.PID) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && err != syscall.ESRCH {
				t.Fatal(err)
			}
		}
		gone(t, patience, "sleep", "1390")
		scope := rec.Identity.Unit
		if left := ""; !eventually(func() bool { left = loadedUnits(scope); return left == "" }) {
			t.Fatalf("still loaded: %s", left)
		}
		slice := filepath.Base(filepath.Dir(rec.Identity.Cgroup))
		other := []string{sleepPath(t), "1391"}
		cmd := exec.Command("systemd-run", append([]string{manager(), "-q", "--scope", "--unit", scope, "--slice", slice}, other...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		pid := alive(t, other...)
		place := strings.TrimSpace(shell(t, "systemctl", manager(), "show", "-p", "ControlGroup", "--value", scope))
		if place != rec.Identity.Cgroup {
			t.Errorf("it is in %s, the job was in %s", place, rec.Identity.Cgroup)
		}

		r := w.unconfirmed("taken-scope")
		if !strings.Contains(r.raw, "another cgroup stands at") && !strings.Contains(r.raw, "InvocationID is") || strings.Contains(r.get("tree.members"), fmt.Sprintf(`"pid":%d,`, pid)) {
			t.Errorf("it is not said that the scope is another: %s", r.raw)
		}
		for _, verb := range [][]string{{"stop", "--grace", "0s"}, {"kill", "-s", "KILL", "--who", "all"}, {"pause"}, {"wait", "--timeout", "5s"}} {
			if a := w.do(append(verb, "taken-scope")...); a.code == 0 || a.code == 124 {
				t.Errorf("want a refusal of %s", a)
			}
		}
		w.do("reap", "--orphans")
		if got, state := processes(other), stateOf(pid); !slices.Equal(got, []int{pid}) || state != "S" {
			t.Errorf("the other scope's process is %v in state %s, was %d", got, state, pid)
		}
	})
}

// sleepPath is what systemd-run makes of a plain "sleep".
func sleepPath(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// KILL to all of a job is a death that can be confirmed, though nobody watched
// and though the kernel may also kill what the manager puts into a cgroup that
// was killed.
func TestKillAll(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		for _, who := range []string{"main", "all"} {
			t.Run(who, func(t *testing.T) {
				w := w.again(t)
				mark := map[string]string{"main": "1387", "all": "1388"}[who]
				w.want(0, "start", "-u", "kill-"+who, "--", "sleep", mark)
				alive(t, "sleep", mark)
				w.want(0, "kill", "-s", "KILL", "--who", who, "kill-"+who)
				w.want(137, "wait", "--timeout", "15s", "kill-"+who)
				w.report("verify", "kill-"+who).has("confirmed=true", "reason=signaled", "exit.signal=KILL")
			})
		}
	})
}

// Case 39: a unit that has the wanted name is not harmed by a start that fails.
func TestForeignUnitStays(t *testing.T) {
	in(t, []string{verify.IsolationService, verify.IsolationScope}, func(t *testing.T, w *ward) {
		unit := "foreign-stays." + w.isolation
		t.Cleanup(func() { exec.Command("systemctl", manager(), "stop", unit).Run() })
		other := []string{sleepPath(t), "1389"}
		argv := append([]string{manager(), "-q", "--unit", unit, "--collect"}, other...)
		if w.isolation == verify.IsolationScope {
			argv = append([]string{manager(), "-q", "--scope", "--unit", unit, "--collect"}, other...)
			cmd := exec.Command("systemd-run", argv...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		} else {
			shell(t, append([]string{"systemd-run"}, argv...)...)
		}
		pid := alive(t, other...)
		for _, verb := range []string{"start", "run"} {
			a := w.want(125, verb, "-u", "foreign-stays", "--", "true")
			if !strings.Contains(a.err, "already has a unit of that name") {
				t.Errorf("unexpected: %s", a)
			}
		}
		w.do("stop", "foreign-stays")
		if got := processes(other); !slices.Equal(got, []int{pid}) {
			t.Errorf("the other unit's process is %v, was %d", got, pid)
		}
		if state := strings.TrimSpace(shell(t, "systemctl", manager(), "show", "-p", "ActiveState", "--value", unit)); state != "active" {
			t.Errorf("the other unit is %s", state)
		}
	})
}
