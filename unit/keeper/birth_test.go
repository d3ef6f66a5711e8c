package keeper

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ownCgroup makes a cgroup of the test's own below the cgroup2 mount: where
// it is in the file system, and its path in the hierarchy.
func ownCgroup(t *testing.T) (dir, path string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("cgroup2: only root may make a cgroup below the mount")
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mount := ""
	for s := bufio.NewScanner(f); s.Scan(); {
		before, after, _ := strings.Cut(s.Text(), " - ")
		if fields := strings.Fields(before); strings.HasPrefix(after, "cgroup2 ") && fields[3] == "/" {
			mount = fields[4]
		}
	}
	if mount == "" {
		t.Skip("cgroup2: its root is not mounted here")
	}
	path = fmt.Sprintf("/unitward-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	dir = mount + path
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("cgroup2: cannot make a cgroup: %v", err)
	}
	t.Cleanup(func() {
		os.WriteFile(dir+"/cgroup.freeze", []byte("0"), 0)
		os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0)
		waitFor(t, func() bool { err := os.Remove(dir); return err == nil || errors.Is(err, fs.ErrNotExist) })
	})
	return dir, path
}

// in opens a file of a cgroup.
func in(t *testing.T, file string) *os.File {
	t.Helper()
	flags := os.O_WRONLY
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		flags = unix.O_DIRECTORY
	}
	f, err := os.OpenFile(file, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// cgroupOf is a process's cgroup v2.
func cgroupOf(t *testing.T, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n")
		}
	}
	t.Fatalf("no cgroup v2 in %q", b)
	return ""
}

// member forks c, whose main process has to be in the cgroup path before
// anything is executed, and runs it to its end.
func member(t *testing.T, s *Subreaper, c *Command, path string) *Reaper {
	t.Helper()
	r, err := s.Fork(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := cgroupOf(t, r.MainPID()); got != path {
		t.Errorf("the main process is in %s, want %s", got, path)
	}
	if got := cgroupOf(t, r.PID()); got == path {
		t.Error("the reaper is in the cgroup too")
	}
	if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", r.MainPID())); string(b) != "unitward-reaper\n" {
		t.Errorf("the main process is %q", b)
	}
	if err := r.Execute(""); err != nil {
		t.Fatal(err)
	}
	if e := ended(t, r); e.Status.ExitStatus() != 5 {
		t.Errorf("the exit is %+v", e)
	}
	childless(t, r)
	return r
}

func TestReaperInACgroup(t *testing.T) {
	dir, path := ownCgroup(t)
	s := subreaper(t)
	c := shell("exit 5")
	c.Cgroup = in(t, dir)
	member(t, s, c, path)
	c.CgroupProcs = in(t, dir+"/cgroup.procs")
	member(t, s, c, path)
	c.Cgroup = nil
	member(t, s, c, path)
}

// The cgroup of a job whose keeper is gone goes with its last process, and one
// with a keeper stays for that to read what was used.
func TestReaperRemovesTheCgroup(t *testing.T) {
	for _, hangup := range []string{"end", "stay"} {
		t.Run(hangup, func(t *testing.T) {
			dir, _ := ownCgroup(t)
			job := filepath.Join(dir, "job")
			if err := os.Mkdir(job, 0o700); err != nil {
				t.Fatal(err)
			}
			k := keepOther(t, "echo up; exec sleep 1000", "HANGUP="+hangup, "CGROUP="+job, "REMOVE="+dir).ready(t)
			k.says(t, "up")
			k.kill(t)
			if hangup == "stay" {
				if err := unix.Kill(k.main, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			waitFor(t, func() bool { _, err := os.Stat(job); return errors.Is(err, fs.ErrNotExist) })
			nothingLeft(t)
		})
	}
	dir, _ := ownCgroup(t)
	job := filepath.Join(dir, "job")
	if err := os.Mkdir(job, 0o700); err != nil {
		t.Fatal(err)
	}
	k := keepOther(t, "exit 5", "CGROUP="+job, "REMOVE="+dir).ready(t)
	k.cmd.Wait()
	if err := os.Remove(job); err != nil {
		t.Errorf("the cgroup of a job with a keeper: %v", err)
	}
}

// A cgroup that was killed once kills whatever is born in it (kernels with
// the 2025 change): the main process joins it instead.
func TestReaperInAKilledCgroup(t *testing.T) {
	dir, path := ownCgroup(t)
	if err := os.WriteFile(dir+"/cgroup.kill", []byte("1"), 0); err != nil {
		t.Skipf("cgroup.kill: %v", err)
	}
	s := subreaper(t)
	c := shell("exit 5")
	c.Cgroup = in(t, dir)
	r, err := s.Fork(c)
	var why *JoinError
	switch {
	case err == nil:
		t.Log("this kernel has no change of 2025")
		r.End()
		childless(t, r)
	case !errors.As(err, &why) || why.Op != "birth" || why.Errno != 0 || errors.Is(err, syscall.Errno(0)):
		t.Errorf("Fork: %v", err)
	}
	c.CgroupProcs = in(t, dir+"/cgroup.procs")
	member(t, s, c, path)
	waitFor(t, noChildren)
}

func TestReaperNotInItsCgroup(t *testing.T) {
	dir, _ := ownCgroup(t)
	s := subreaper(t)
	gone := dir + "/gone"
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	removed, removedProcs := in(t, gone), in(t, gone+"/cgroup.procs")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	readOnly, err := os.Open(dir + "/cgroup.procs")
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	for _, c := range []struct {
		name                   string
		cgroup, procs, keepers *os.File
		op                     string
		errno                  syscall.Errno
	}{
		{"removed", removed, nil, nil, "clone3", unix.ENOENT},
		{"removed, and to be joined", removed, removedProcs, nil, "clone3", unix.ENOENT},
		{"joined when removed", nil, removedProcs, nil, "write to cgroup.procs", unix.ENODEV},
		{"a directory", in(t, t.TempDir()), nil, nil, "clone3", unix.EBADF},
		{"not writable", nil, readOnly, nil, "write to cgroup.procs", unix.EBADF},
		{"the keeper's", nil, nil, removedProcs, "write to the keeper's cgroup.procs", unix.ENODEV},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := t.TempDir() + "/ran"
			cmd := shell(`: >"$0"`, file)
			cmd.Cgroup, cmd.CgroupProcs, cmd.KeeperProcs = c.cgroup, c.procs, c.keepers
			_, err := s.Fork(cmd)
			var why *JoinError
			if !errors.As(err, &why) || why.Op != c.op || why.Errno != c.errno || !errors.Is(err, c.errno) {
				t.Errorf("Fork: %v, want %s: %v", err, c.op, c.errno)
			}
			if _, err := os.Stat(file); err == nil {
				t.Error("the command ran")
			}
			if !noChildren() {
				t.Error("there are children left")
			}
		})
	}
}

func TestReaperInTheKeepersCgroup(t *testing.T) {
	dir, path := ownCgroup(t)
	keepers := dir + "/keepers"
	if err := os.Mkdir(keepers, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { waitFor(t, func() bool { return os.Remove(keepers) == nil }) })
	c := shell("exit 5")
	c.KeeperProcs, c.CgroupProcs = in(t, keepers+"/cgroup.procs"), in(t, dir+"/cgroup.procs")
	r, err := subreaper(t).Fork(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := cgroupOf(t, r.PID()); got != path+"/keepers" {
		t.Errorf("the reaper is in %s", got)
	}
	if got := cgroupOf(t, r.MainPID()); got != path {
		t.Errorf("the main process is in %s", got)
	}
	r.End()
	childless(t, r)
}

// A frozen cgroup holds a birth up, and not an end.
func TestReaperInAFrozenCgroup(t *testing.T) {
	dir, _ := ownCgroup(t)
	if err := os.WriteFile(dir+"/cgroup.freeze", []byte("1"), 0); err != nil {
		t.Skipf("cgroup.freeze: %v", err)
	}
	k := keepOther(t, "sleep 1000", "CGROUP="+dir)
	waitFor(t, func() bool { b, _ := os.ReadFile(dir + "/cgroup.procs"); return len(b) > 0 })
	k.kill(t)
	nothingLeft(t)

	s := subreaper(t)
	c := shell("exit 5")
	c.Cgroup, c.CgroupProcs = in(t, dir), in(t, dir+"/cgroup.procs")
	done := make(chan error)
	go func() {
		r, err := s.Fork(c)
		if err == nil {
			err = r.Execute("")
			<-r.Childless()
		}
		done <- err
	}()
	waitFor(t, func() bool { b, _ := os.ReadFile(dir + "/cgroup.procs"); return len(b) > 0 })
	select {
	case err := <-done:
		t.Errorf("it was born in a frozen cgroup: %v", err)
	default:
		if err := os.WriteFile(dir+"/cgroup.freeze", []byte("0"), 0); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Everything in the cgroup is ended, what is no descendant too.
func TestReaperKillsTheCgroup(t *testing.T) {
	dir, _ := ownCgroup(t)
	if _, err := os.Stat(dir + "/cgroup.kill"); err != nil {
		t.Skipf("cgroup.kill: %v", err)
	}
	s := subreaper(t)
	for _, killReaper := range []bool{false, true} {
		c := shell("setsid sleep 1000 & sleep 1000")
		c.CgroupProcs, c.CgroupKill = in(t, dir+"/cgroup.procs"), in(t, dir+"/cgroup.kill")
		r := started(t, s, c)
		other := started(t, s, &Command{Path: "/bin/sh", Argv: []string{"sh", "-c", "sleep 1000"}, CgroupProcs: c.CgroupProcs})
		if killReaper {
			unix.Kill(r.PID(), unix.SIGKILL)
			lost(t, r)
		}
		r.End()
		childless(t, r)
		if e := ended(t, other); e.Status != syscall.WaitStatus(unix.SIGKILL) {
			t.Errorf("the other's exit is %+v", e)
		}
		childless(t, other)
	}
}
