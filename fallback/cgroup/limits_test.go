package cgroup

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/unitward/unitward/unit"
)

// Of each limit it is said whether it holds, and what the kernel's file has.
func TestUnitLimits(t *testing.T) {
	p := place(t)
	u := raw(t, p, "limits")
	for _, l := range u.SetLimits(Limits{MemoryMax: 64<<20 + 1, TasksMax: 50, CPUQuota: 500_000}) {
		b, err := os.ReadFile(u.where(t) + "/" + map[string]string{"MemoryMax": "memory.max", "TasksMax": "pids.max", "CPUQuota": "cpu.max"}[l.Name])
		want := map[string]string{"MemoryMax": "67108864", "TasksMax": "50", "CPUQuota": "50000 100000"}[l.Name]
		if l.Applied != (err == nil) || l.Applied && (l.Found != want || string(b) != want+"\n") || l.Found == "" {
			t.Errorf("%+v; the file has %q, %v", l, b, err)
		}
		if !l.Applied {
			t.Logf("%s: %s", l.Name, l.Found)
		}
	}
	for _, l := range u.SetLimits(Limits{MemoryMax: NoLimit, TasksMax: NoLimit, CPUQuota: NoLimit}) {
		if l.Applied {
			t.Errorf("no limit: %+v", l)
		}
	}
	if got := u.SetLimits(Limits{}); got != nil {
		t.Errorf("nothing was asked: %+v", got)
	}
}

func needsMachine(t *testing.T) {
	t.Helper()
	if os.Getenv("UNITWARD_VM") == "" {
		t.Skip("vm: needs an emulated machine; make test-vm has them")
	}
}

// TestVMUnits ends units on each suite's own kernel: that of bullseye has no
// cgroup.kill.
func TestVMUnits(t *testing.T) {
	needsMachine(t)
	t.Run("kill", TestUnitKill)
	t.Run("tricks", TestUnitTricks)
	t.Run("signal", TestUnitSignal)
}

// TestVMUnitLimits needs every controller.
func TestVMUnitLimits(t *testing.T) {
	needsMachine(t)
	if h := os.Getenv("UNITWARD_VM"); h != "unified" {
		t.Skip("hierarchy: it is " + h + " here, and cgroup v1 has the controllers")
	}
	if os.Geteuid() != 0 {
		t.Skip("cgroup2: only root may change the controllers of the top")
	}
	h, err := FindHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	// As where PID 1 is not systemd: the top's controllers are ours to enable.
	p, err := (&search{h: h, own: h.root}).run("")
	if err != nil || p.Place != PlaceTop && p.Place != PlaceManager {
		t.Fatalf("the place is %+v, %v", p, err)
	}
	p = &Parent{Path: h.root + ours, Place: PlaceTop, h: h, base: h.root, shared: true, mine: true}
	u := raw(t, p, "oom")
	for _, l := range u.SetLimits(Limits{MemoryMax: 32 << 20, TasksMax: 20, CPUQuota: 900_000}) {
		if !l.Applied {
			t.Errorf("%+v", l)
		}
	}
	if oom, err := u.OOM(); err != nil || oom != (OOM{}) {
		t.Errorf("OOM = %+v, %v", oom, err)
	}
	// A second one of the same limits finds the controllers enabled.
	other := raw(t, p, "other")
	for _, l := range other.SetLimits(Limits{MemoryMax: 32 << 20, TasksMax: 20, CPUQuota: 900_000}) {
		if !l.Applied {
			t.Errorf("other: %+v", l)
		}
	}
	bystander := job(t, other, "exec sleep 308")
	cmd := job(t, u, "sleep 309 & x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done")
	if err := u.Wait(bounded(t)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	oom, err := u.OOM()
	if err != nil || oom.Kills == 0 {
		t.Errorf("OOM = %+v, %v", oom, err)
	}
	if c := other.Read(); len(c.Members) != 1 || c.Members[0].PID != bystander.Process.Pid {
		t.Errorf("the other unit reads %+v", c)
	}
	if b, err := u.content("cgroup.procs"); err != nil || b != "" {
		t.Errorf("cgroup.procs has %q, %v", b, err)
	}
	t.Logf("%+v, %v, used %s", oom, cmd.ProcessState, shown(u.Usage()))
}

func shown(u unit.Usage) string {
	b, err := json.Marshal(u)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		l    Limits
		want string
	}{
		{Limits{}, ""},
		{Limits{MemoryMax: 1}, "memory.max=1"},
		{Limits{MemoryMax: NoLimit, TasksMax: NoLimit, CPUQuota: NoLimit}, "memory.max=max pids.max=max cpu.max=max 100000"},
		{Limits{TasksMax: NoLimit - 1}, "pids.max=18446744073709551614"},
		{Limits{CPUQuota: 1_000_000}, "cpu.max=100000 100000"},
		{Limits{CPUQuota: 2_500_000}, "cpu.max=250000 100000"},
		{Limits{CPUQuota: 10_000}, "cpu.max=1000 100000"},
		{Limits{CPUQuota: 5_000}, "cpu.max=1000 200000"},
		{Limits{CPUQuota: 1_000}, "cpu.max=1000 1000000"},
		{Limits{CPUQuota: 1}, "cpu.max=1000 1000000"},
		{Limits{CPUQuota: NoLimit - 1}, "cpu.max=109951162777 100000"},
	} {
		var got []string
		for _, s := range c.l.settings() {
			got = append(got, s.file+"="+s.value)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q; want %q", c.l, got, c.want)
		}
	}
}

func TestKeyed(t *testing.T) {
	const events = "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 18446744073709551615\n"
	for key, want := range map[string]uint64{"low": 0, "max": 3, "oom": 2, "oom_kill": 1, "oom_group_kill": 1<<64 - 1} {
		if got, ok := keyed(events, key); !ok || got != want {
			t.Errorf("%s = %d, %v", key, got, ok)
		}
	}
	for _, key := range []string{"", "kill", "oom_kil", "oom_kill 1", "novel"} {
		if got, ok := keyed(events, key); ok {
			t.Errorf("%q = %d", key, got)
		}
	}
	for _, s := range []string{"", "x", "x ", "x -1\n", "x 1 \n", "x 18446744073709551616\n"} {
		if got, ok := keyed(s, "x"); ok {
			t.Errorf("%q: %d", s, got)
		}
	}
}

func FuzzKeyed(f *testing.F) {
	f.Add("usage_usec 12\nuser_usec 3\n", "user_usec")
	f.Fuzz(func(t *testing.T, s, key string) {
		if n, ok := keyed(s, key); ok && !strings.Contains(s, key+" ") {
			t.Fatalf("keyed(%q, %q) = %d", s, key, n)
		}
	})
}

func FuzzPIDs(f *testing.F) {
	f.Add("1\n0\n12\n")
	f.Fuzz(func(t *testing.T, s string) {
		found, unseen, err := parsePIDs(s)
		if err == nil && len(found)+unseen != len(strings.Split(strings.TrimSuffix(s, "\n"), "\n")) && s != "" {
			t.Fatalf("parsePIDs(%q) = %v, %d", s, found, unseen)
		}
		for _, pid := range found {
			if pid <= 0 {
				t.Fatalf("parsePIDs(%q) has %d", s, pid)
			}
		}
	})
}

func FuzzDirName(f *testing.F) {
	for _, s := range []string{"a", "memory.max", "_a", "..", "cgroup.procs", "tasks"} {
		f.Add(s)
	}
	seen := map[string]string{}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := DirName(s)
		if err != nil {
			return
		}
		if len(d) > maxName || strings.ContainsAny(d, "/\x00\n") || d == "." || d == ".." || strings.TrimPrefix(d, "_") != strings.TrimPrefix(s, "_") && d != "_"+s {
			t.Fatalf("DirName(%q) = %q", s, d)
		}
		if other, ok := seen[d]; ok && other != s {
			t.Fatalf("%q and %q are both %q", s, other, d)
		}
		seen[d] = s
	})
}

func TestParseOwn(t *testing.T) {
	for in, want := range map[string]string{
		"0::/\n": "/", "0::/user.slice/a.scope\n": "/user.slice/a.scope", "0::/a": "/a",
		"9:name=systemd:/x\n8:pids:/\n0::/y z (deleted)\n": "/y z (deleted)", "10::/n\n0::/../o\n": "/../o",
	} {
		if got, ok := parseOwn(in); !ok || got != want {
			t.Errorf("parseOwn(%q) = %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "0::\n", "0::relative\n", "10::/\n", "0:name=x:/\n", " 0::/\n"} {
		if got, ok := parseOwn(in); ok {
			t.Errorf("parseOwn(%q) = %q", in, got)
		}
	}
}

func TestAncestor(t *testing.T) {
	for _, c := range [][3]string{
		{"/", "/", "/"}, {"/a", "/b", "/"}, {"/a/b", "/a/c", "/a"}, {"/a/b", "/a/bc", "/a"}, {"/a", "/a/b/c", "/a"}, {"/a/b/c", "/a", "/a"}, {"/a/b", "/a/b", "/a/b"},
	} {
		if got := ancestor(c[0], c[1]); got != c[2] {
			t.Errorf("ancestor(%s, %s) = %s; want %s", c[0], c[1], got, c[2])
		}
	}
	for in, want := range map[string]string{
		"/": "", "/a": "", "/a.slice/b.service": "/a.slice/b.service", "/a.slice/b.service/c/d": "/a.slice/b.service", "/unitward/x": "", "/a.slice/c": "/a.slice",
	} {
		if got := systemdUnit(in); got != want {
			t.Errorf("systemdUnit(%s) = %s; want %s", in, got, want)
		}
	}
}

// The findings go to JSON as doctor prints them.
func TestIsolationError(t *testing.T) {
	e := &unit.IsolationError{Isolation: "cgroup", Refused: []unit.Refusal{{What: "a", Why: "b"}, {What: "c", Why: "d"}}}
	if got := e.Error(); got != "cannot use isolation cgroup here: a: b; c: d" {
		t.Error(got)
	}
}
