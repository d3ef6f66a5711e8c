package packages

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInstalled takes a package through its life in a machine: installed,
// used, upgraded and removed while jobs run. Each step needs the one before.
func TestInstalled(t *testing.T) {
	dir := stage(t)
	older := files2(t, dir+"/packages/older/unitward_*.deb")[0]
	newer := files2(t, dir+"/packages/first/unitward_*.deb")[0]
	companions(t, dir)
	t.Cleanup(func() { root.do(t, "dpkg", "--purge", "unitward") })
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"install", func(t *testing.T) { install(t, older) }},
		{"use", use},
		{"agents", func(t *testing.T) { agents(t, files2(t, dir+"/packages/older/unitward-mcp_*.deb")[0]) }},
		{"manual", manual},
		{"completion", completion},
		{"polkit", polkit},
		{"upgrade", func(t *testing.T) { upgrade(t, newer) }},
		{"remove", func(t *testing.T) { remove(t, dir+"/unitward", newer) }},
		{"rpm", func(t *testing.T) { rpm(t, dir) }},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// Installing starts and enables nothing.
func install(t *testing.T, deb string) {
	units := func() string {
		return root.want(t, 0, "systemctl", "list-units", "--all", "--plain", "--no-legend", "*unitward*") +
			tester.want(t, 0, "systemctl", "--user", "list-units", "--all", "--plain", "--no-legend", "*unitward*")
	}
	before := units()
	apt(t, "apt-get", "install", "-y", deb)
	if after := units(); after != before {
		t.Errorf("units before\n%s\nand after\n%s", before, after)
	}
	if links := find(t, "/etc"); len(links) > 0 {
		t.Errorf("the install has made %v", links)
	}
	if _, err := os.Stat("/var/lib/unitward"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("/var/lib/unitward: %v", err)
	}
	if out := tester.want(t, 0, "unitward", "--version"); !strings.HasPrefix(out, "unitward version 0.0.0~a (commit ") {
		t.Errorf("it says %q", out)
	}
}

// Everybody can run a job, which lands in the slice that was installed.
func use(t *testing.T) {
	for _, u := range []*user{root, tester} {
		u.want(t, 0, "unitward", "run", "--", "true")
		u.want(t, 5, "unitward", "run", "--", "sh", "-c", "exit 5")
		j := live(t, u, "paktest-use")
		slice, manager := "unitward.slice", "--system"
		if u == tester {
			slice, manager = "app-unitward.slice", "--user"
		}
		out := u.want(t, 0, "systemctl", manager, "show", "-p", "Slice", "paktest-use.service")
		if out != "Slice="+slice+"\n" {
			t.Errorf("a job of %s is in %s", u.name, out)
		}
		// A slice of that name can be loaded from before the install.
		u.want(t, 0, "systemctl", manager, "daemon-reload")
		out = u.want(t, 0, "systemctl", manager, "show", "-p", "FragmentPath", "-p", "Description", slice)
		if !strings.Contains(out, "/lib/systemd/") || !strings.Contains(out, "unitward.slice\n") || !strings.Contains(out, "Jobs of unitward") {
			t.Errorf("the slice of %s: %s", u.name, out)
		}
		j.end(t)
		u.want(t, 7, "unitward", "wait", j.name)
	}
}

func manual(t *testing.T) {
	for page, text := range map[string]string{
		"unitward": "unitward-run(1)", "unitward-run": "--timeout TIME", "unitward-report": "confirmed", "unitward-version": "commit",
	} {
		out := tester.want(t, 0, "env", "MANPAGER=cat", "MAN_KEEP_FORMATTING=", "man", page)
		if !strings.Contains(out, text) {
			t.Errorf("man %s has no %q:\n%s", page, text, out)
		}
	}
	if out := tester.want(t, 0, "env", "MANPAGER=cat", "man", "7", "unitward"); !strings.Contains(out, "Evidence") {
		t.Errorf("man 7 unitward:\n%s", out)
	}
	for _, page := range files2(t, "/usr/share/man/man[157]/unitward*.gz") {
		if _, _, errs := tester.do(t, "env", "MANPAGER=cat", "man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page); errs != "" {
			t.Errorf("groff says of %s: %s", page, errs)
		}
	}
}

// The example of a rule lets a member of its group run a job under the system
// manager, and nobody else. It needs a systemd that tells the unit's name.
func polkit(t *testing.T) {
	if v := root.want(t, 0, "systemctl", "--version"); strings.HasPrefix(v, "systemd 247") || strings.HasPrefix(v, "systemd 252") {
		t.Skip("the example is for systemd 257 and later")
	}
	member := []string{"setpriv", "--reuid", "tester", "--regid", "tester", "--init-groups", "env", "HOME=/home/tester", "unitward", "run", "--system", "--", "true"}
	root.want(t, 125, member...)
	const rule = "/etc/polkit-1/rules.d/50-example.rules"
	t.Cleanup(func() {
		os.Remove(rule)
		root.do(t, "groupdel", "unitward")
		root.want(t, 0, "systemctl", "restart", "polkit")
	})
	root.want(t, 0, "groupadd", "unitward")
	root.want(t, 0, "usermod", "-aG", "unitward", "tester")
	root.want(t, 0, "cp", "/usr/share/doc/unitward/examples/50-unitward.rules", rule)
	root.want(t, 0, "systemctl", "restart", "polkit")
	root.want(t, 0, member...)
	root.want(t, 125, append(member[:11:11], "-u", "another", "--", "true")...)
	tester.want(t, 125, "unitward", "run", "--system", "--", "true") // not in the group since its login
}

// An upgrade under live jobs: they go on, their keepers with the old program,
// and each end is recorded and proven.
func upgrade(t *testing.T, deb string) {
	jobs := []*job{
		live(t, tester, "paktest-service"), live(t, tester, "paktest-scope", "--isolation", "scope"), live(t, tester, "paktest-group", "--isolation", "group"),
		live(t, root, "paktest-service"), live(t, root, "paktest-scope", "--isolation", "scope"), live(t, root, "paktest-group", "--isolation", "group"),
		live(t, tester, "paktest-user-of-root-for-key", "--key", "k"),
	}
	front := tester.cmd("unitward", "run", "-u", "paktest-front", "--report", "/tmp/paktest-report", "--", "sh", "-c", "while [ ! -e /tmp/end-front ]; do sleep .1; done; exit 9")
	var errs bytes.Buffer
	front.Stderr = &errs
	if err := front.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { front.Process.Kill(); os.Remove("/tmp/end-front"); os.Remove("/tmp/paktest-report") })
	if !eventually(func() bool { s, _, _ := tester.do(t, "unitward", "status", "paktest-front"); return s == 0 }) {
		t.Fatal("the job in the foreground does not start")
	}
	apt(t, "apt-get", "install", "-y", deb)
	if out := tester.want(t, 0, "unitward", "version"); strings.Contains(out, "0.0.0~a") {
		t.Errorf("after the upgrade it says %s", out)
	}
	for _, j := range jobs {
		j.runs(t)
		if out := j.want(t, 0, "unitward", "status", j.name); !strings.Contains(out, "running") {
			t.Errorf("job %s of %s:\n%s", j.name, j.user.name, out)
		}
	}
	if t.Failed() {
		return
	}
	for _, j := range jobs {
		j.end(t)
		j.want(t, 7, "unitward", "wait", j.name)
		if out := j.want(t, 0, "unitward", "verify", j.name); !strings.Contains(out, "confirmed: failed (7)") {
			t.Errorf("job %s of %s: %s", j.name, j.user.name, out)
		}
	}
	if err := os.WriteFile("/tmp/end-front", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_ = front.Wait()
	if got := front.ProcessState.ExitCode(); got != 9 || errs.Len() > 0 {
		t.Errorf("the job in the foreground: status %d, want 9; %s", got, errs.String())
	}
	if b, err := os.ReadFile("/tmp/paktest-report"); err != nil || !bytes.Contains(b, []byte(`"confirmed":true`)) {
		t.Errorf("its report: %s, %v", b, err)
	}
}

// Removing and purging leave jobs alone, and nothing of ours but the records
// of those that run. other is a program like the one that is removed.
func remove(t *testing.T, other, deb string) {
	ended := live(t, root, "paktest-ended")
	ended.end(t) // nobody looks at it: the package does, before the program goes
	if !eventually(func() bool { _, err := os.Stat(ended.record() + "/exit.json"); return err == nil }) {
		t.Fatal("nothing records its exit")
	}
	jobs := []*job{
		live(t, tester, "paktest-remove"), live(t, tester, "paktest-remove-group", "--isolation", "group"),
		live(t, root, "paktest-remove"), live(t, root, "paktest-remove-group", "--isolation", "group"),
	}
	if !eventually(func() bool {
		_, out, _ := root.do(t, "systemctl", "show", "-p", "ActiveState", ended.name+".service")
		return strings.Contains(out, "inactive") || strings.Contains(out, "failed")
	}) {
		t.Fatal("it does not end")
	}
	owned := strings.Fields(root.want(t, 0, "dpkg-query", "-L", "unitward"))
	apt(t, "apt-get", "remove", "-y", "unitward")
	gone(t, owned)
	for _, j := range jobs {
		j.runs(t)
	}
	if b, err := os.ReadFile(ended.record() + "/job.json"); err != nil || !bytes.Contains(b, []byte(`"sealed":`)) {
		t.Errorf("what had ended was not settled: %v, %s", err, b)
	}
	said := apt(t, "apt-get", "purge", "-y", "unitward")
	if !strings.Contains(said, "keeps the records") {
		t.Errorf("purge does not say what it keeps: %s", said)
	}
	if _, err := os.Stat(ended.record()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record of a settled job: %v", err)
	}
	for _, j := range jobs {
		j.runs(t)
	}
	for _, d := range []string{"/etc", "/usr", "/lib/systemd", "/var/cache"} {
		if left := find(t, d); len(left) > 0 {
			t.Errorf("purge leaves %v", left)
		}
	}
	// What is kept still tells whose jobs they are, to whoever has the program.
	for _, j := range jobs {
		j.want(t, 0, other, "stop", "--grace", "5s", j.name)
		j.end(t)
	}
	apt(t, "dpkg", "-i", deb)
	apt(t, "dpkg", "--purge", "unitward")
	for _, d := range []string{"/etc", "/usr", "/lib/systemd", "/var"} {
		if left := find(t, d); len(left) > 0 {
			t.Errorf("purge without jobs leaves %v", left)
		}
	}
}

// gone wants every file of a package to be gone. Directories may be others' too.
func gone(t *testing.T, owned []string) {
	t.Helper()
	for _, f := range owned {
		info, err := os.Lstat(f)
		if err == nil && (!info.IsDir() || strings.Contains(f, "unitward")) {
			t.Errorf("%s is left", f)
		}
	}
	if len(owned) < 20 {
		t.Errorf("the package had only %v", owned)
	}
}

// find lists what is called unitward below a directory.
func find(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && strings.Contains(filepath.Base(path), "unitward") {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
