package e2e

import "testing"

// Case 33: where memory is out, the job dies, and nothing else.
func TestVMOOM(t *testing.T) {
	needMachine(t, "unified")
	inMachine(t, all[:3], func(t *testing.T, w *ward) {
		const doubling = `x=0123456789abcdef; while :; do x=$x$x; done`
		for _, c := range []struct {
			name    string
			command []string
			exit    []string
		}{
			{"main", []string{"sh", "-c", doubling}, []string{"exit.signal=KILL"}},
			{"child", []string{"sh", "-c", "sleep 3301 & sh -c '" + doubling + "'; wait"}, nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				w := w.again(t)
				w.want(0, "start", "-u", "bystander", "--", "sleep", "3302")
				if w.isolation == "scope" && systemdVersion() < scopeOOM {
					outOfMemoryUntold(w, c.command)
					return
				}
				a, r := w.withFile("run", append([]string{"--memory-max", "64M", "--require-limits", "--"}, c.command...)...)
				if a.code != 137 && (c.exit != nil || a.code == 0 || a.code == 123) {
					t.Errorf("want status 137 of %s", a)
				}
				r.has(append(c.exit, "state=settled", "reason=oom", "confirmed=true", "tree.empty=true", "exit.known=true",
					"limits.len=1", "limits.0.name=MemoryMax", "limits.0.applied=true", "limits.0.found=67108864")...)
				gone(t, 0, "sleep", "3301")
				alive(t, "sleep", "3302")
				w.report("status", "bystander").has("state=running")
				w.want(0, "stop", "bystander")
			})
		}
	})
}

// scopeOOM is a systemd whose manager ends a scope in which memory was out, and
// says so. That of 247 does not, and a job's keeper has no claim on a cgroup of
// the manager's.
const scopeOOM = 252

func outOfMemoryUntold(w *ward, command []string) {
	w.t.Helper()
	a, r := w.withFile("run", append([]string{"--memory-max", "64M", "--timeout", "10s", "--require-limits", "--"}, command...)...)
	r.has("state=settled", "confirmed=true", "tree.empty=true", "exit.known=true", "limits.0.found=67108864")
	switch reason := r.get("reason"); {
	case a.code == 137 && reason == "signaled" && r.get("exit.signal") == "KILL": // the main process was killed
	case a.code == 124 && reason == "timeout": // one of its children was, and it waited for another
	default:
		w.t.Errorf("reason %s of %s", reason, a)
	}
	gone(w.t, 0, "sleep", "3301")
	alive(w.t, "sleep", "3302")
	w.want(0, "stop", "bystander")
}
