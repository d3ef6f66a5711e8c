package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseMounts(t *testing.T) {
	const text = `23 1 259:0 / / rw,relatime - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw shared:9 master:2 - tmpfs tmpfs rw,mode=755
41 31 0:38 / /sys/fs/cgroup/uni\040fied rw,relatime - cgroup2 cgroup2 rw
a line that is none
`
	want := []mount{{"/", "ext4"}, {"/sys/fs/cgroup", "tmpfs"}, {"/sys/fs/cgroup/uni fied", "cgroup2"}}
	if got := parseMounts(text); !slices.Equal(got, want) {
		t.Errorf("parseMounts: %v, want %v", got, want)
	}
}

func TestRemoveTreeRefusesMounts(t *testing.T) {
	// /proc is mounted wherever tests run; nothing may be removed through it.
	err := removeTree("/proc")
	if err == nil || !strings.Contains(err.Error(), "mounted there") {
		t.Errorf("removeTree of a mount: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "a")
	if err := os.MkdirAll(filepath.Join(dir, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the tree is still there: %v", err)
	}
}

func TestNames(t *testing.T) {
	for _, good := range []string{"a", "sid-1-0af3", strings.Repeat("x", 100)} {
		if err := validName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "-a", "A", "a/b", "..", "a b", "a:b", strings.Repeat("x", 101), "a\n"} {
		if validName(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseSuites(t *testing.T) {
	if got, err := ParseSuites("trixie, sid"); err != nil || len(got) != 2 || got[0].Name != "trixie" || got[1].Name != "sid" {
		t.Errorf("a list: %v, %v", got, err)
	}
	if got, err := ParseSuites("all"); err != nil || len(got) != len(Suites) {
		t.Errorf("all: %v, %v", got, err)
	}
	if got, err := ParseSuites("none"); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	if _, err := ParseSuites("buster"); err == nil {
		t.Error("buster is taken")
	}
}

func TestParseTargets(t *testing.T) {
	if got, err := ParseTargets("sid, bullseye-legacy"); err != nil || len(got) != 2 || got[0].Hierarchy != Unified || got[1].Name != "bullseye" || got[1].Hierarchy != Legacy {
		t.Errorf("a list: %v, %v", got, err)
	}
	if got, err := ParseTargets("all"); err != nil || len(got) != 8 {
		t.Errorf("all: %v, %v", got, err)
	}
	if got, err := ParseTargets("none"); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	if _, err := ParseTargets("sid-legacy"); err == nil {
		t.Error("systemd 262 mounts cgroup v1")
	}
	names := map[string]bool{}
	for _, target := range Targets() {
		if names[target.log()+target.Name] || names[target.String()] {
			t.Errorf("%s is there twice", target)
		}
		names[target.log()+target.Name], names[target.String()] = true, true
	}
}

// What is left behind is a failure, and is told of.
func TestReportOfLeft(t *testing.T) {
	r := report{Runs: []testRun{{Where: "sid", Package: "p", Outcomes: []Outcome{{Test: "TestA", Action: "pass"}}, Left: []string{"sleep 1000 of TestA"}}}}
	var out bytes.Buffer
	if !r.print(&out) || !strings.Contains(out.String(), "sleep 1000 of TestA") {
		t.Errorf("the report:\n%s", &out)
	}
}

// The last lines of a report name everything that failed: often no more is kept of it.
func TestReportEndsWithWhatFailed(t *testing.T) {
	long := strings.Repeat("x", 1000)
	r := report{Failed: []string{"the machine of sid: it did not boot"}, Runs: []testRun{
		{Where: "sid (systemd 262)", User: "root", Package: "p", Outcomes: []Outcome{
			{Test: "TestA/b", Action: "fail", Output: "=== RUN   TestA/b\n" + strings.Repeat(long+"\n", 100) + "    a_test.go:1: got 1\n--- FAIL: TestA/b (1.2s)\n"},
			{Test: "TestB", Action: "pass"},
		}},
		{Where: "trixie (systemd 257)", User: "tester", Package: "q", Err: io.ErrUnexpectedEOF, Left: []string{"sleep 1000 of TestA"}},
	}}
	var out bytes.Buffer
	r.print(&out)
	_, end, _ := strings.Cut(out.String(), "\nfailed: ")
	for _, want := range []string{"sid root p TestA/b\n", "    a_test.go:1: got 1\n\n", "trixie tester q " + whole + "\n    unexpected EOF\n", "left something behind\n    sleep 1000 of TestA\n", "the machine of sid: it did not boot\n"} {
		if !strings.Contains(end, want) {
			t.Errorf("the end of the report lacks %q", want)
		}
	}
	if strings.Contains(end, "TestB") || strings.Contains(end, "--- FAIL") || len(end) > 1500 {
		t.Errorf("the end of the report, %d bytes:\n%s", len(end), end)
	}
}

func TestDescribe(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"UNITWARD_JOB=a-job"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var got []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if got = describe([]int{cmd.Process.Pid, 1 << 30}); strings.HasPrefix(got[0], "sleep 1000 (sleep, ") {
			break
		}
	}
	if len(got) != 1 || !strings.HasPrefix(got[0], "sleep 1000 (sleep, ") || !strings.Contains(got[0], "job a-job") || !strings.HasSuffix(got[0], " of TestDescribe") {
		t.Errorf("it is %q", got)
	}
}

// events are what test2json writes.
const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    a_test.go:3: rig: no fuse\n"}
{"Action":"skip","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/y"}
{"Action":"output","Package":"p","Test":"TestA/z","Output":"    a_test.go:9: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA/z"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"fail","Package":"p"}
`

func TestCollect(t *testing.T) {
	var log bytes.Buffer
	got, err := collect(strings.NewReader(events), &log)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range got {
		names = append(names, o.Action+" "+o.Test)
	}
	// The parent failed because of its subtest, and the package because of its
	// tests: neither counts again. TestC began and never ended.
	want := []string{"skip TestA/x", "pass TestA/y", "fail TestA/z", "pass TestB", "fail TestC"}
	if !slices.Equal(names, want) {
		t.Errorf("outcomes %q, want %q", names, want)
	}
	if reason := got[0].Reason(); reason != "rig: no fuse" {
		t.Errorf("reason %q", reason)
	}
	if !strings.Contains(log.String(), "wrong") {
		t.Error("the log lacks what a test printed")
	}
}

func TestCollectBlamesThePackage(t *testing.T) {
	got, err := collect(strings.NewReader(`{"Action":"output","Package":"p","Output":"panic: no\n"}`+"\n"+`{"Action":"fail","Package":"p"}`), io.Discard)
	if err != nil || len(got) != 1 || got[0].Test != "" || got[0].Action != "fail" || got[0].Output != "panic: no\n" {
		t.Errorf("outcomes %+v, %v", got, err)
	}
}

func TestEnforce(t *testing.T) {
	skipped := func() []testRun {
		return []testRun{{Outcomes: []Outcome{
			{Test: "TestA", Action: "skip", Output: "    a_test.go:1: rig: no systemd\n"},
			{Test: "TestB", Action: "skip", Output: "    a_test.go:2: systemd 247 has no such property\n"},
		}}}
	}
	t.Setenv("UNITWARD_REQUIRE", "")
	runs := skipped()
	enforce(runs, machineSkips...)
	if c := runs[0].count(); c != (count{skipped: 2}) {
		t.Errorf("nothing is required: %s", c)
	}
	t.Setenv("UNITWARD_REQUIRE", "rig,vm")
	runs = skipped()
	enforce(runs, machineSkips...)
	if c := runs[0].count(); c != (count{failed: 1, skipped: 1}) {
		t.Errorf("the rig is required: %s", c)
	}
}

func TestReportNamesWhatDidNotRun(t *testing.T) {
	t.Setenv("UNITWARD_REQUIRE", "vm")
	var r report
	r.cannot("the rig of sid", "rig", io.EOF)
	r.Runs = []testRun{{Where: "unit", Package: "p", Outcomes: []Outcome{{Test: "TestA", Action: "pass"}}}}
	var out bytes.Buffer
	if r.print(&out) {
		t.Errorf("it failed, and only what is not required could not run:\n%s", &out)
	}
	if s := out.String(); !strings.Contains(s, "NOT EVERYTHING COULD RUN") || !strings.Contains(s, "the rig of sid: EOF") || !strings.HasSuffix(s, "\n1 passed, 0 failed, 0 skipped\n") {
		t.Errorf("the report:\n%s", s)
	}
	r.cannot("the machine of sid", "vm", io.EOF)
	if !r.print(io.Discard) {
		t.Error("what is required could not run, and it passed")
	}
}

func TestDropMoved(t *testing.T) {
	skip := func(name string) Outcome {
		return Outcome{Test: name, Action: "skip", Output: "    a_test.go:1: rig: needs systemd\n"}
	}
	unit := []testRun{{Package: "tests/e2e", Outcomes: []Outcome{skip("TestA"), skip("TestB"), skip("TestC")}}}
	rig := []testRun{{Package: "tests/e2e", Outcomes: []Outcome{{Test: "TestA", Action: "pass"}, {Test: "TestB/x", Action: "fail"}}}}
	lost := dropMoved(unit, rig)
	if !slices.Equal(lost, []string{"tests/e2e TestC"}) || len(unit[0].Outcomes) != 1 {
		t.Errorf("lost %q, left %+v", lost, unit[0].Outcomes)
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("hello"), 0o640); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	a := newArchive(&out)
	if err := a.tree(dir, "opt", func(name string) bool { return name == "opt/none" }); err != nil {
		t.Fatal(err)
	}
	if err := a.link("l", "opt/f"); err != nil {
		t.Fatal(err)
	}
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	b := out.Bytes()
	if int64(len(b)) != a.size || len(b)%4 != 0 {
		t.Errorf("%d bytes, counted %d", len(b), a.size)
	}
	if n := bytes.Count(b, []byte("070701")); n != 4 { // opt, opt/f, l, the trailer
		t.Errorf("%d entries", n)
	}
	for _, part := range []string{"opt/f\x00", "hello", "l\x00", "TRAILER!!!\x00"} {
		if !bytes.Contains(b, []byte(part)) {
			t.Errorf("it lacks %q", part)
		}
	}
}

func TestStatusWriter(t *testing.T) {
	var out bytes.Buffer
	w := &statusWriter{out: &out}
	for _, part := range []string{"one\ntw", "o\nrig-st", "atus exited 7\nrest"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	if code, ok := w.exit(); !ok || code != 7 || out.String() != "one\ntwo\nrest" {
		t.Errorf("status %d, %v; output %q", code, ok, out.String())
	}
	if code, ok := (&statusWriter{status: "killed TERM"}).exit(); !ok || code != 143 {
		t.Errorf("killed TERM is %d, %v", code, ok)
	}
	if _, ok := (&statusWriter{}).exit(); ok {
		t.Error("no status is taken for one")
	}
}

// What asks no manager runs in the last suite, and an ordinary user's all.
func TestSpared(t *testing.T) {
	t.Setenv(isolationVariable, "") // to be put back
	os.Unsetenv(isolationVariable)
	for n, want := range map[int]string{1: "", 2: "spared bullseye: ", 4: "spared bullseye, bookworm, trixie: "} {
		o := options{suites: Suites[:n], spare: true}
		if got := o.spared(); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%d suites: %q; want %q", n, got, want)
		}
	}
	o := options{suites: Suites, spare: true}
	const all, managed, raw = "", managedIsolations, unmanagedIsolations
	for i, s := range Suites {
		type part struct{ user, isolations, run string }
		want := []part{{"root", managed, all}, {"tester", managed, scripts}}
		switch i {
		case 1, 2:
			want = []part{{"root", "service", all}, {"root", "scope", scripts}, want[1]}
		case len(Suites) - 1:
			want = []part{{"root", managed, all}, {"root", raw, scripts}, {"tester", all, all}}
		}
		logs := map[string]bool{}
		for j, w := range want {
			p := passes(o, s)[j]
			if len(p.users) != 1 || p.users[0] != w.user || p.isolations != w.isolations || p.run != w.run || (p.only == "") != (w.run == all) || logs[w.user+p.log] {
				t.Errorf("pass %d of %s is %+v; want %+v", j, s, p, w)
			}
			logs[w.user+p.log] = true
			if env := p.environment(); (len(env) > 0) != (w.isolations != all) {
				t.Errorf("pass %d of %s has %v", j, s, env)
			}
		}
		if o.spares(s) != (i < len(Suites)-1) {
			t.Errorf("%s: %v", s, o.spares(s))
		}
	}
	for dir, want := range map[string]bool{"fallback/cgroup": true, "unit/keeper": true, "unit/keeper2": false, "tests/e2e": false, "unit/serve": false} {
		if got := (testBinary{Dir: dir}).unmanaged(); got != want {
			t.Errorf("%s: %v", dir, got)
		}
	}
	if o.spare = false; o.spared() != "" || len(passes(o, Suites[1])[0].users) != 2 || passes(o, Suites[1])[0].isolations != all {
		t.Error("it spares where nobody wants it")
	}
	t.Setenv(isolationVariable, "group")
	if env := (pass{isolations: managed}).environment(); env != nil {
		t.Errorf("who says which is overruled: %v", env)
	}
}

func TestIdleShare(t *testing.T) {
	const stat = "cpu  10 1 20 300 40 5 6 7 8 9\ncpu0 1 1 1 1 1 1 1 1 1 1\nintr 5\n"
	got, err := parseTicks(stat)
	if want := (ticks{idle: 340, all: 389}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, s := range []string{"", "cpu  1 2 3", "intr 1 2 3 4 5 6 7 8 9", "cpu 1 2 3 4 5 6 7 x 9"} {
		if got, err := parseTicks(s); err == nil {
			t.Errorf("%q is taken as %+v", s, got)
		}
	}
	for after, want := range map[ticks]float64{
		{idle: 340, all: 389}: 0, {idle: 339, all: 399}: 0, {idle: 340, all: 399}: 0,
		{idle: 345, all: 399}: 0.5, {idle: 350, all: 399}: 1,
	} {
		if share := idleShare(got, after); share != want {
			t.Errorf("%+v: %v, want %v", after, share, want)
		}
	}
	if _, err := readTicks(); err != nil {
		t.Error(err)
	}
}

// More than are sure to begin do so where there is room, or once one has ended.
func TestInParallel(t *testing.T) {
	for _, c := range []struct{ width, sure, room, most int }{{4, 4, 0, 4}, {4, 2, 0, 2}, {4, 2, 1, 3}, {4, 2, 9, 4}, {1, 2, 9, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var running, most, begun int
			var mu sync.Mutex
			room := c.room
			inParallel(c.width, c.sure, 8, func() bool { time.Sleep(time.Second); room--; return room >= 0 }, func(int) {
				mu.Lock()
				begun++
				running++
				most = max(most, running)
				mu.Unlock()
				time.Sleep(time.Minute)
				mu.Lock()
				running--
				mu.Unlock()
			})
			if most != c.most || begun != 8 {
				t.Errorf("%+v: %d began, %d at a time", c, begun, most)
			}
		})
	}
}
