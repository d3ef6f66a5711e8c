package packages

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// rpm takes the other package through its life, in a root directory of its own.
func rpm(t *testing.T, dir string) {
	if _, err := exec.LookPath("rpm"); err != nil {
		if b, _ := os.ReadFile("/etc/os-release"); strings.Contains(string(b), "VERSION_CODENAME=trixie") {
			t.Fatal("the rig has brought no rpm")
		}
		t.Skip("one machine has rpm: that of trixie")
	}
	older := files2(t, dir+"/packages/older/unitward-[0-9]*.rpm")[0]
	newer := files2(t, dir+"/packages/first/unitward-[0-9]*.rpm")[0]
	at, err := os.MkdirTemp("/opt", "rpm-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(at) })
	if err := os.Chmod(at, 0o755); err != nil { // for the tester to get in
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		return apt(t, append([]string{"rpm", "--root", at}, args...)...)
	}
	program := at + "/usr/bin/unitward"
	run("-i", older)
	run("-V", "unitward")
	for _, u := range []*user{root, tester} {
		u.want(t, 0, program, "run", "--", "true")
	}
	if out := run("-qd", "unitward"); !strings.Contains(out, "/usr/share/man/man1/unitward-run.1.gz") {
		t.Errorf("its documentation is\n%s", out)
	}
	u := *tester
	u.env = append([]string{"PATH=" + at + "/usr/bin:/usr/bin:/bin"}, tester.env...)
	link := "/usr/local/bin/unitward" // live calls it by its name
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(link) })
	u.env = append(u.env, "PATH=/usr/local/bin:/usr/bin:/bin")
	service, group := live(t, &u, "rpmtest-service"), live(t, &u, "rpmtest-group", "--isolation", "group")
	run("-U", newer)
	run("-V", "unitward")
	if out := tester.want(t, 0, program, "version"); strings.Contains(out, "0.0.0~a") {
		t.Errorf("after the upgrade it says %s", out)
	}
	for _, j := range []*job{service, group} {
		j.end(t)
		j.want(t, 7, program, "wait", j.name)
	}
	run("-i", files2(t, dir+"/packages/first/unitward-mcp-*.rpm")[0])
	run("-V", "unitward-mcp")
	if rep := useTool(t, tester, at+"/usr/bin/unitward-mcp"); !rep.Confirmed {
		t.Errorf("of unitward-mcp: %+v", rep)
	}
	run("-e", "unitward-mcp")
	owned := strings.Fields(run("-ql", "unitward"))
	run("-e", "unitward")
	for i := range owned {
		owned[i] = at + owned[i]
	}
	gone(t, owned)
	for _, d := range []string{at + "/usr", at + "/etc"} {
		if _, err := os.Stat(d); err == nil {
			if left := find(t, d); len(left) > 0 {
				t.Errorf("erasing leaves %v", left)
			}
		}
	}
}
