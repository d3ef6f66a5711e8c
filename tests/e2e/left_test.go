package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unitward/unitward/verify"
)

// What a job hands to another manager leaves its unit, which is empty without
// it. It is named, and neither ended nor waited for.
func TestLeftUnit(t *testing.T) {
	in(t, all, func(t *testing.T, w *ward) {
		needRig(t)
		dir := t.TempDir()
		up, leave, scope := filepath.Join(dir, "up"), filepath.Join(dir, "leave"), "left-"+w.isolation+".scope"
		sleep := []string{sleepPath(t), "1120"} // as systemd-run calls it
		t.Cleanup(func() { exec.Command("systemctl", manager(), "stop", scope).Run() })
		w.want(0, "start", "-u", "left", "--output", "capture", "--grace", "30s", "--", "sh", "-c",
			"systemd-run "+manager()+" --scope -q --unit "+scope+" sleep 1120 & "+until(up, leave, 5))
		exists(t, up)
		alive(t, sleep...)
		r := w.report("status", "left")
		if w.isolation == verify.IsolationGroup {
			r.has("left_unit.len=0") // it is all that descends from it
			return
		}
		if !eventually(func() bool { r = w.report("status", "left"); return r.get("left_unit.len") == "1" }) {
			t.Fatalf("it is not named: %s", r.raw)
		}
		r.has("state=running", "left_unit.0.command="+strings.Join(sleep, " "))
		if got := r.get("left_unit.0.cgroup"); !strings.HasSuffix(got, "/"+scope) {
			t.Errorf("it is said to be in %s", got)
		}
		if a := w.want(0, "status", "left"); !strings.Contains(a.out, sleep[0]+" 1120) is in /") {
			t.Errorf("status does not say it: %s", a)
		}
		touch(t, leave)
		// The end of the unit does not wait for it: the grace is longer than this.
		w.want(5, "wait", "--timeout", "15s", "left")
		w.report("status", "left").has("state=settled", "confirmed=true", "exit.code=5", "tree.empty=true", "left_unit.0.command="+strings.Join(sleep, " "))
		if w.isolation == verify.IsolationService {
			alive(t, sleep...)
		}
	})
}
