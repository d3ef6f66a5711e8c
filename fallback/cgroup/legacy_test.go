package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/unitward/unitward/verify"
)

func TestParseLegacy(t *testing.T) {
	for _, c := range []struct{ line, mount string }{
		{"31 30 0:27 / /sys/fs/cgroup/systemd rw,nosuid shared:7 - cgroup cgroup rw,xattr,release_agent=/a,name=systemd", "/sys/fs/cgroup/systemd"},
		{"31 30 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd", "/sys/fs/cgroup/systemd"},
		{"31 30 0:27 / /sys/fs/cgroup/openrc rw - cgroup cgroup rw,name=openrc", ""},
		{"31 30 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids", ""},
		{"31 30 0:27 / /sys/fs/cgroup/x rw - cgroup cgroup rw,xname=systemd", ""},
		{"31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup rw,name=systemd", ""},
		{"31 30 0:27 / /sys/fs/cgroup rw - cgroup name=systemd", ""},
		{"31 30 - cgroup cgroup rw,name=systemd", ""},
		{"", ""},
	} {
		h, ok := parseLegacy(c.line)
		if ok != (c.mount != "") || ok && h.mount != c.mount {
			t.Errorf("parseLegacy(%q) = %+v, %v", c.line, h, ok)
		}
	}
}

// A cgroup of version 1 is proven empty by its removal, or by its list where there is
// no other below it.
func TestLegacy(t *testing.T) {
	l, err := FindLegacy()
	if err != nil {
		t.Skip("cgroup1: " + err.Error())
	}
	name := fmt.Sprintf("/unitward-test-%d", os.Getpid())
	dir, err := l.h.path(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/below", 0o755); err != nil {
		t.Skipf("cgroup1: cannot make one: %v", err)
	}
	t.Cleanup(func() {
		os.Remove(dir + "/below")
		os.Remove(dir)
	})
	want := func(state verify.CgroupState) verify.Cgroup {
		t.Helper()
		c := l.Read(name)
		if c.State != state {
			t.Errorf("it is %v, want %v: %+v", c.State, state, c)
		}
		return c
	}
	want(verify.CgroupUnavailable)
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if err := os.WriteFile(dir+"/below/cgroup.procs", []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
		t.Fatal(err)
	}
	if c := want(verify.CgroupPopulated); !c.Listed || len(c.Members) != 1 || c.Members[0].PID != cmd.Process.Pid {
		t.Errorf("its members are %+v", c)
	}
	if p, err := l.LastingPath(name); err != nil || p != filepath.Join(dir, "notify_on_release") {
		t.Errorf("LastingPath = %q, %v", p, err)
	} else if b, err := os.ReadFile(p); err != nil || len(b) == 0 || b[0] == 'p' {
		t.Errorf("it holds %q, %v", b, err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	want(verify.CgroupUnavailable)
	if err := os.Remove(dir + "/below"); err != nil {
		t.Fatal(err)
	}
	if seesAll() {
		want(verify.CgroupEmpty)
	} else {
		want(verify.CgroupUnavailable)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	want(verify.CgroupGone)
	if c := l.Read(name + "/gone/further"); c.State != verify.CgroupGone {
		t.Errorf("what was below it is %+v", c)
	}
	elsewhere := Legacy{Hierarchy{mount: t.TempDir(), root: "/"}}
	if c := elsewhere.Read(name); c.State != verify.CgroupUnavailable {
		t.Errorf("on another file system it is %+v", c)
	}
	if c := (*Hierarchy)(nil).Recorded(name, 1).Read(); c.State != verify.CgroupUnavailable {
		t.Errorf("without a hierarchy it is %+v", c)
	}
}
