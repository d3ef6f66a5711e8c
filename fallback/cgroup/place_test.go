package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// nobody is the ordinary user as whom tests run where the machine has none.
const nobody = 65534

// bounded is a context that ends only when a test has failed.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// place is where the tests make units: for root a cgroup of the test's own,
// for a user what is delegated to him. It fails when a test leaves something
// behind.
func place(t *testing.T) *Parent {
	t.Helper()
	var p *Parent
	if os.Geteuid() == 0 && os.Getenv("UNITWARD_TEST_PLACE") == "" {
		h, name := ownCgroup(t)
		var err error
		if p, err = h.FindParent(name); err != nil {
			t.Fatal(err)
		}
	} else {
		h, err := FindHierarchy()
		if err != nil {
			t.Skip("cgroup2: " + err.Error())
		}
		p, err = h.FindParent("")
		var none *unit.IsolationError
		if errors.As(err, &none) {
			t.Skip("cgroup2: nothing is delegated to this user: " + err.Error())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	descriptors := countDescriptors(t)
	t.Cleanup(func() {
		p.Close()
		if now := countDescriptors(t); now != descriptors {
			t.Errorf("%d descriptors are open, and %d were", now, descriptors)
		}
	})
	return p
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		// The runtime makes its own when it first needs them.
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "anon_inode:") {
			n++
		}
	}
	return n
}

// raw makes a unit that goes with the test.
func raw(t *testing.T, p *Parent, name string) *Unit {
	t.Helper()
	u, err := p.Create(fmt.Sprintf("%s-%d", name, os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer u.Close()
		if _, err := u.Kill(bounded(t)); err != nil {
			t.Error(err)
		}
		if err := u.Remove(bounded(t)); err != nil {
			t.Error(err)
		}
	})
	return u
}

// where is the unit in the file system.
func (u *Unit) where(t *testing.T) string {
	t.Helper()
	p, err := u.parent.h.path(u.Path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// job starts a shell in the unit. It is reaped at the end of the test.
func job(t *testing.T, u *Unit, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), "unit="+u.where(t))
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(u.Dir().Fd()), Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := u.Kill(bounded(t)); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	})
	return cmd
}

func awaitMembers(t *testing.T, u *Unit, n int) {
	t.Helper()
	waitFor(t, func() bool { return len(u.Read().Members) >= n })
}

// TestAsUser runs the tests of units once more as an ordinary user, in a
// cgroup that is delegated to him: only there does a job's chmod bite.
func TestAsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("cgroup2: only root can delegate a cgroup here")
	}
	h, name := ownCgroup(t)
	dir := h.mount + name + "/below"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"} {
		if err := os.Chown(dir+f, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestUnit", "-test.v", "-test.timeout=4m")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		UseCgroupFD: true, CgroupFD: int(d.Fd()), Pdeathsig: syscall.SIGKILL,
		Credential: &syscall.Credential{Uid: nobody, Gid: nobody},
	}
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "nothing is delegated") || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
	if testing.Verbose() {
		t.Logf("as an ordinary user:\n%s", out)
	}
	if left, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(left, os.DirEntry.IsDir) {
		t.Errorf("something is left in %s: %v, %v", dir, left, err)
	}
}

// Not everything that could be tried is, and each has its reason.
func TestCandidates(t *testing.T) {
	h, name := ownCgroup(t)
	dir := h.mount + name
	made := func(path string, mode os.FileMode, uid int) string {
		t.Helper()
		if err := errors.Join(os.Mkdir(dir+path, mode), os.Chown(dir+path, uid, uid)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Remove(dir + path) })
		return name + path
	}
	root := made("/root", 0o755, 0)
	service := made("/a.service", 0o755, 0)
	inner := made("/a.service/inner", 0o755, 0)
	delegated := made("/b.service", 0o755, 0)
	deep := made("/b.service/deep", 0o755, 0)
	if err := unix.Setxattr(dir+"/b.service", "trusted.delegate", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	made("/t", 0o755, 0) // its other children become unusable
	threaded := made("/t/threaded", 0o755, 0)
	if err := os.WriteFile(dir+"/t/threaded/cgroup.type", []byte("threaded"), 0); err != nil {
		t.Fatal(err)
	}
	one := &Hierarchy{mount: h.mount, root: "/"}
	top := &Hierarchy{mount: dir, root: name} // as a mount of a part shows it
	for _, c := range []struct {
		name  string
		h     *Hierarchy
		own   string
		named string
		uid   int
		place Place
		path  string
		why   string // of the last refusal
	}{
		{name: "own, without systemd", h: one, own: root, place: PlaceOwn, path: root},
		{name: "own, delegated", h: one, own: delegated, place: PlaceOwn, path: delegated},
		{name: "own, below what is delegated", h: one, own: deep, place: PlaceOwn, path: deep},
		{name: "own, of a service", h: top, own: service, place: PlaceTop, path: name + "/unitward", why: "user@0.service"},
		{name: "own, below a service", h: top, own: inner, place: PlaceTop, path: name + "/unitward", why: "user@0.service"},
		{name: "named", h: one, own: "/", named: root, place: PlaceNamed, path: root},
		{name: "named, in the file system", h: one, own: "/", named: dir + "/root", place: PlaceNamed, path: root},
		{name: "named, missing", h: one, own: "/", named: root + "/gone", why: "it does not exist"},
		{name: "named, relative", h: one, own: "/", named: "root", why: "it is no clean absolute path"},
		{name: "named, dots", h: one, own: "/", named: root + "/../root", why: "it is no clean absolute path"},
		{name: "named, a file", h: one, own: "/", named: root + "/cgroup.procs", why: "not a directory"},
		{name: "named, the top", h: one, own: "/", named: "/", why: "it is the top"},
		{name: "named, the mount", h: one, own: "/", named: h.mount, why: "it is the top"},
		{name: "named, not in the mount", h: top, own: root, named: "/elsewhere", why: "shows"},
		{name: "named, threaded", h: one, own: "/", named: threaded, why: `cgroup.type is "threaded"`},
		{name: "own is outside", h: one, own: "/../x", named: root, why: "outside of this cgroup namespace"},
		{name: "ancestor out of sight", h: top, own: "/x", named: root, why: "cannot see /"},
		{name: "no mount", h: &Hierarchy{mount: "/proc", root: "/"}, own: "/", named: "/self", why: "no cgroup2 file system"},
		{name: "own is gone", h: top, own: root + " (deleted)", uid: 4242, place: PlaceTop, path: name + "/unitward", why: "user@4242.service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := (&search{h: c.h, own: c.own, uid: c.uid}).run(c.named)
			var none *unit.IsolationError
			var refused []unit.Refusal
			switch {
			case c.path == "":
				if !errors.As(err, &none) || none.Isolation != verify.IsolationCgroup || len(none.Hint()) == 0 {
					t.Fatalf("run = %+v, %v", p, err)
				}
				refused = none.Refused
			case err != nil:
				t.Fatal(err)
			case p.Path != c.path || p.Place != c.place:
				t.Errorf("it is %+v; want %s, %s", p, c.place, c.path)
				fallthrough
			default:
				refused = p.Refused
			}
			last := ""
			if len(refused) > 0 {
				last = refused[len(refused)-1].String()
			}
			if (last == "") != (c.why == "") || !strings.Contains(last, c.why) {
				t.Errorf("refused: %v; want %q", refused, c.why)
			}
		})
	}
	if err := os.Symlink(dir, t.TempDir()+"/link"); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == ours }) {
		t.Errorf("the search has made something: %v, %v", entries, err)
	}
}

// A place that is not ours but has our name is left alone.
func TestForeignPlace(t *testing.T) {
	h, name := ownCgroup(t)
	dir := h.mount + name + "/unitward"
	top := &Hierarchy{mount: h.mount + name, root: name}
	s := &search{h: top, own: name}
	for _, c := range []struct {
		mode os.FileMode
		uid  int
		busy bool
		why  string
	}{
		{mode: 0o755, why: "mode 0755"},
		{mode: 0o700, uid: nobody, why: "uid 65534"},
		{mode: 0o700, busy: true, why: "processes of its own"},
	} {
		if err := errors.Join(os.Mkdir(dir, c.mode), os.Chown(dir, c.uid, c.uid)); err != nil {
			t.Fatal(err)
		}
		end := func() {}
		if c.busy {
			_, end = member(t, dir)
		}
		_, err := s.run("")
		var none *unit.IsolationError
		if !errors.As(err, &none) || !strings.Contains(none.Refused[len(none.Refused)-1].Why, c.why) {
			t.Errorf("%+v: %v", c, err)
		}
		p := &Parent{Path: name + "/unitward", Place: PlaceTop, h: top, base: name, shared: true}
		if _, err := p.Create("x"); !errors.As(err, &none) {
			t.Errorf("%+v: Create: %v", c, err)
		}
		end()
		p.tidy()
		if _, err := os.Stat(dir); !c.busy && err != nil {
			t.Errorf("%+v: it was removed: %v", c, err)
		}
		os.Remove(dir)
	}
}

// What is mounted over a cgroup that a job made is neither signalled nor
// removed: it is not the job's.
func TestMountedOver(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts: only root can mount here")
	}
	p := place(t)
	u, bystander := raw(t, p, "mounted"), raw(t, p, "bystander")
	cmd := job(t, bystander, "exec sleep 310")
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/empty", 0o755), os.Mkdir(u.where(t)+"/x", 0o755), os.Mkdir(u.where(t)+"/y", 0o755)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its namespace
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Error(err)
			return
		}
		if err := errors.Join(
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount(dir, u.where(t)+"/x", "", unix.MS_BIND, ""),
			unix.Mount(bystander.where(t), u.where(t)+"/y", "", unix.MS_BIND, ""),
		); err != nil {
			t.Error(err)
			return
		}
		again, err := p.h.Attach(u.Path, u.Inode)
		if err != nil {
			t.Error(err)
			return
		}
		defer again.Close()
		if sent, err := again.Signal(unix.SIGKILL); !errors.Is(err, unix.EXDEV) || sent.Reached != 0 {
			t.Errorf("Signal = %+v, %v", sent, err)
		}
		if err := again.ThawAll(); !errors.Is(err, unix.EXDEV) {
			t.Errorf("ThawAll: %v", err)
		}
		if err := again.Remove(bounded(t)); !errors.Is(err, unix.EXDEV) {
			t.Errorf("Remove: %v", err)
		}
	}()
	<-done
	if _, err := os.Stat(dir + "/empty"); err != nil {
		t.Errorf("a directory outside was removed: %v", err)
	}
	if c := bystander.Read(); len(c.Members) != 1 || c.Members[0].PID != cmd.Process.Pid {
		t.Errorf("the other unit reads %+v", c)
	}
}
