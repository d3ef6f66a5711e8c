package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/verify"
)

// patience bounds every wait for a condition. It is no expectation: a test
// that waits this long has failed.
const patience = 60 * time.Second

// ownCgroup makes a cgroup of the test's own below the mount.
func ownCgroup(t *testing.T) (*Hierarchy, string) {
	t.Helper()
	h, err := FindHierarchy()
	if errors.Is(err, ErrNoHierarchy) {
		t.Skip("cgroup2: none is mounted here")
	}
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("cgroup2: only root may make a cgroup below the mount")
	}
	if h.root != "/" {
		t.Skipf("cgroup2: the mount shows %s only", h.root)
	}
	name := fmt.Sprintf("/unitward-test-%d", os.Getpid())
	dir := h.mount + name
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("cgroup2: cannot make a cgroup: %v", err)
	}
	t.Cleanup(func() {
		os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0)
		os.Remove(dir + "/below")
		waitFor(t, func() bool { err := os.Remove(dir); return err == nil || errors.Is(err, fs.ErrNotExist) })
	})
	return h, name
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition did not come true")
		}
	}
}

// member starts a process in the cgroup that ends when its stdin does. It is there
// by its name: what has just been executed has none for a moment.
func member(t *testing.T, dir string, argv ...string) (cmd *exec.Cmd, end func()) {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if argv == nil {
		argv = []string{"cat"}
	}
	cmd = exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(d.Fd())}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			in.Close()
			cmd.Wait()
		}
	}
	t.Cleanup(end)
	waitFor(t, func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
		return len(b) > 0
	})
	return cmd, end
}

func TestRead(t *testing.T) {
	h, name := ownCgroup(t)
	dir := h.mount + name
	g, err := h.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	if c := g.Read(); c.State != verify.CgroupEmpty || c.Path != name {
		t.Errorf("with nothing in it: %+v", c)
	}
	if err := os.Mkdir(dir+"/below", 0o755); err != nil {
		t.Fatal(err)
	}
	one, endOne := member(t, dir)
	two, endTwo := member(t, dir+"/below")
	c := g.Read()
	pids := map[int]string{}
	for _, m := range c.Members {
		pids[m.PID] = m.Command
	}
	if c.State != verify.CgroupPopulated || len(pids) != 2 || pids[one.Process.Pid] != "cat" || pids[two.Process.Pid] != "cat" {
		t.Errorf("with two members: %+v", c)
	}
	endOne()
	if c := g.Read(); c.State != verify.CgroupPopulated || len(c.Members) != 1 || c.Members[0].PID != two.Process.Pid {
		t.Errorf("with a member below: %+v", c)
	}
	endTwo()
	if c := g.Read(); c.State != verify.CgroupEmpty || len(c.Members) != 0 {
		t.Errorf("with both ended: %+v", c)
	}

	unknown := h.Recorded(name, 0)
	if c := unknown.Read(); c.State != verify.CgroupUnavailable || !strings.Contains(c.Err, "inode") {
		t.Errorf("an inode that was not recorded: %+v", c)
	}
	if c := h.Recorded(name, g.Inode+1).Read(); c.State != verify.CgroupReplaced {
		t.Errorf("another inode: %+v", c)
	}
	if err := errors.Join(os.Remove(dir+"/below"), os.Remove(dir)); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []*Group{g, unknown, h.Recorded(name+"/below/x", 7)} {
		if c := gone.Read(); c.State != verify.CgroupGone {
			t.Errorf("%s, removed: %+v", gone.Path, c)
		}
	}
	if _, err := h.Lookup(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Lookup of what is gone: %v", err)
	}
	if _, err := g.Watch(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Watch of what is gone: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if c := g.Read(); c.State != verify.CgroupReplaced {
		t.Errorf("a new cgroup of the same name: %+v", c)
	}
	if err := g.Kill(); !errors.Is(err, unix.ESTALE) {
		t.Errorf("Kill of a new cgroup of the same name: %v", err)
	}
	if _, err := g.File("cgroup.type"); !errors.Is(err, unix.ESTALE) {
		t.Errorf("File of a new cgroup of the same name: %v", err)
	}
}

// Absence proves nothing where the hierarchy itself cannot be seen.
func TestReadWithoutACgroupFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/a", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/a/cgroup.events", []byte("populated 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*Hierarchy{{mount: dir, root: "/"}, {mount: dir + "/gone", root: "/"}, {mount: dir, root: "/below"}} {
		for _, path := range []string{"/a", "/gone", "/gone/below", "/a/../a", "relative", "/a\x00b"} {
			for _, inode := range []uint64{0, 7} {
				if c := h.Recorded(path, inode).Read(); c.State != verify.CgroupUnavailable || c.Err == "" {
					t.Errorf("%+v: %q reads %+v", h, path, c)
				}
			}
		}
	}
}

func TestReadThroughALink(t *testing.T) {
	h, name := ownCgroup(t)
	dir := t.TempDir()
	if err := os.Symlink(h.mount+name, dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if c := (&Hierarchy{mount: dir, root: "/"}).Recorded("/link", 7).Read(); c.State != verify.CgroupUnavailable {
		t.Errorf("a link reads %+v", c)
	}
}

// woken waits for a report; false is the end of the watch.
func woken(t *testing.T, w *Watch) bool {
	t.Helper()
	select {
	case _, open := <-w.C:
		return open
	case <-time.After(patience):
		t.Fatal("the watch said nothing")
		return false
	}
}

func TestWatch(t *testing.T) {
	h, name := ownCgroup(t)
	g, err := h.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	_, end := member(t, h.mount+name)
	w, err := g.Watch()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	end()
	await := func(state verify.CgroupState) {
		t.Helper()
		for first := true; first || g.Read().State != state; first = false {
			if !woken(t, w) {
				t.Fatal("the watch ended")
			}
		}
	}
	await(verify.CgroupEmpty)
	_, end = member(t, h.mount+name)
	await(verify.CgroupPopulated)
	end()
	await(verify.CgroupEmpty)
	w.Close()
	for woken(t, w) {
	}
}

func TestKill(t *testing.T) {
	h, name := ownCgroup(t)
	g, err := h.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Recorded(name, 0).Kill(); !errors.Is(err, unix.ESTALE) {
		t.Errorf("Kill of what is not known: %v", err)
	}
	cmd, end := member(t, h.mount+name, "/bin/sh", "-c", "trap '' TERM; cat; :")
	err = g.Kill()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("cgroup.kill: needs Linux 5.14")
	}
	if err != nil {
		t.Fatal(err)
	}
	// The reaping is ours, so that nothing else ends them.
	waitFor(t, func() bool { return g.Read().State == verify.CgroupEmpty })
	end()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

func TestFile(t *testing.T) {
	h, name := ownCgroup(t)
	g, err := h.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := g.File("cgroup.type"); err != nil || got != "domain" {
		t.Errorf("cgroup.type is %q, %v", got, err)
	}
	cmd, _ := member(t, h.mount+name)
	if got, err := g.File("cgroup.procs"); err != nil || got != strconv.Itoa(cmd.Process.Pid) {
		t.Errorf("cgroup.procs is %q, %v", got, err)
	}
	if _, err := g.File("novel.max"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if p, err := g.EventsPath(); err != nil || p != filepath.Join(h.Mount(), name, "cgroup.events") {
		t.Errorf("EventsPath = %s, %v", p, err)
	}
	if _, err := h.Controllers(name); err != nil {
		t.Errorf("Controllers: %v", err)
	}
	if _, err := h.Controllers(name + "/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Controllers of nothing: %v", err)
	}
}
