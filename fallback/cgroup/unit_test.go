package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

func TestUnitCreate(t *testing.T) {
	p := place(t)
	for _, mask := range []int{0o022, 0o777, 0} {
		before := syscall.Umask(mask)
		u, err := p.Create("create")
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(u.where(t), &st); err != nil || st.Mode != unix.S_IFDIR|0o700 || st.Ino != u.Inode || u.Inode == 0 {
			t.Errorf("umask %#o: it has mode %#o, inode %d, and is recorded with %d: %v", mask, st.Mode, st.Ino, u.Inode, err)
		}
		if c := u.Read(); c.State != verify.CgroupEmpty {
			t.Errorf("it reads %+v", c)
		}
		var exists *ExistsError
		if _, err := p.Create("create"); !errors.As(err, &exists) || !errors.Is(err, fs.ErrExist) || exists.Path != u.Path {
			t.Errorf("a second one of the name: %v", err)
		}
		if gone, err := u.gone(); gone || err != nil {
			t.Errorf("the second one took the first: %v, %v", gone, err)
		}
		if err := u.Remove(bounded(t)); err != nil {
			t.Error(err)
		}
		if c := u.Read(); c.State != verify.CgroupGone {
			t.Errorf("removed, it reads %+v", c)
		}
		if err := u.Remove(bounded(t)); err != nil {
			t.Errorf("removed twice: %v", err)
		}
		u.Close()
	}
	for _, name := range []string{"", ".", "..", "a/b", "/", "a\x00b", "a\nb", strings.Repeat("n", 256)} {
		if u, err := p.Create(name); err == nil {
			t.Errorf("Create(%q) made %s", name, u.Path)
		}
		if _, err := p.Attach(name, 0); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Attach(%q): %v", name, err)
		}
	}
	// What the kernel has files of is a name too.
	for _, name := range []string{"cgroup.procs", "memory.max", "cpu.stat", "_x", strings.Repeat("n", 255)} {
		u, err := p.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		again, err := p.Attach(name, u.Inode)
		if err != nil || again.Path != u.Path {
			t.Errorf("Attach(%q): %+v, %v", name, again, err)
		} else {
			again.Close()
		}
		if err := u.Remove(bounded(t)); err != nil {
			t.Error(err)
		}
		u.Close()
	}
}

// Whatever step fails for want of a descriptor, nothing is left.
func TestUnitCreateWithoutDescriptors(t *testing.T) {
	p := place(t)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
	failed := 0
	for limit := uint64(countDescriptors(t)); ; limit++ {
		if limit > 200 {
			t.Fatal("it never came about")
		}
		now := syscall.Rlimit{Cur: limit, Max: before.Max}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
			t.Fatal(err)
		}
		u, err := p.Create("starved")
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if err == nil {
			if u.procs == nil || u.freezer == nil {
				t.Errorf("it was made without %+v", u)
			}
			if err := u.Remove(bounded(t)); err != nil {
				t.Error(err)
			}
			u.Close()
			break
		}
		var none *unit.IsolationError
		if !errors.As(err, &none) {
			t.Errorf("%d descriptors: %v", limit, err)
		}
		// One failure may be that of the way out: open can also fail before mkdir.
		if _, err := p.Attach("starved", 0); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%d descriptors: something is left: %v", limit, err)
		}
		failed++
	}
	if failed < 6 {
		t.Errorf("only %d steps failed", failed)
	}
}

// The place that is shared comes with the first unit and goes with the last,
// also when many come and go at once.
func TestUnitSharedPlace(t *testing.T) {
	in := place(t)
	p := &Parent{Path: in.Path + "/" + ours, Place: in.Place, h: in.h, base: in.Path, shared: true, holder: &holder{}}
	if in.shared {
		p = in
	}
	defer p.Close()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 100 {
				u, err := p.Create(fmt.Sprintf("job-%d-%d", n, i))
				if err != nil {
					t.Error(err)
					return
				}
				if err := u.Remove(bounded(t)); err != nil {
					t.Error(err)
				}
				u.Close()
			}
		})
	}
	wg.Wait()
	if _, err := p.h.Lookup(p.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the place is left: %v", err)
	}
	u, err := p.Create("later")
	if err != nil {
		t.Fatal(err)
	}
	inode := u.Inode
	u.Close()
	u, err = p.h.Attach(p.Path+"/later", inode)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := u.Remove(bounded(t)); err != nil {
		t.Error(err)
	}
	if _, err := p.h.Lookup(p.Path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the place is left by one that attached: %v", err)
	}
}

func TestUnitAttach(t *testing.T) {
	p := place(t)
	u := raw(t, p, "attach")
	cmd := job(t, u, "exec sleep 300")
	again, err := p.h.Attach(u.Path, u.Inode)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if c := again.Read(); c.State != verify.CgroupPopulated {
		t.Errorf("it reads %+v", c)
	}
	if g := again.Group(); g.Read().State != verify.CgroupPopulated {
		t.Errorf("as a group it reads %+v", g.Read())
	}
	for name, c := range map[string]struct {
		path  string
		inode uint64
		want  error
	}{
		"another inode":      {u.Path, u.Inode + 1, unix.ESTALE},
		"no inode":           {u.Path, 0, unix.ESTALE},
		"missing":            {u.Path + "-gone", 1, fs.ErrNotExist},
		"missing parent":     {p.Path + "/gone/gone", 1, fs.ErrNotExist},
		"a file of a cgroup": {u.Path + "/cgroup.procs", 1, unix.ENOTDIR},
	} {
		if _, err := p.h.Attach(c.path, c.inode); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{"", "relative", u.Path + "/", p.Path + "/../x", "/", u.Path + "\x00"} {
		if _, err := p.h.Attach(path, 1); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Attach(%q): %v", path, err)
		}
	}
	// Absence where there is no cgroup2 proves nothing.
	for _, mount := range []string{t.TempDir(), "/gone"} {
		var none *unit.IsolationError
		if _, err := (&Hierarchy{mount: mount, root: "/"}).Attach("/x", 1); !errors.As(err, &none) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("with a mount at %s: %v", mount, err)
		}
	}
	if way, err := again.Kill(bounded(t)); err != nil || way == WayNone {
		t.Errorf("Kill of an attached unit: %q, %v", way, err)
	}
	_ = cmd.Wait()
	if err := again.Remove(bounded(t)); err != nil {
		t.Error(err)
	}
	if _, err := p.h.Attach(u.Path, u.Inode); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	// The place went with its last unit.
	if err := os.MkdirAll(u.where(t), 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() {
		os.Remove(u.where(t))
		p.tidy()
	}()
	if _, err := p.h.Attach(u.Path, u.Inode); !errors.Is(err, unix.ESTALE) {
		t.Errorf("made again by another: %v", err)
	}
	if err := u.Remove(bounded(t)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(u.where(t)); err != nil {
		t.Errorf("Remove took another's: %v", err)
	}
}

// A cgroup behind a link is not the one that was asked for.
func TestUnitLinks(t *testing.T) {
	p := place(t)
	u := raw(t, p, "links")
	dir := t.TempDir()
	if err := errors.Join(os.Symlink(u.where(t), dir+"/link"), os.Mkdir(dir+"/sub", 0o755)); err != nil {
		t.Fatal(err)
	}
	top, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if fd, err := descend(top, "/link"); err == nil {
		unix.Close(fd)
		t.Error("a link was followed")
	}
}

func TestUnitProbe(t *testing.T) {
	p := place(t)
	r, err := p.Probe("probe")
	if err != nil {
		t.Fatal(err)
	}
	_, missing := p.h.Attach(p.Path+"/probe", 1)
	if !errors.Is(missing, fs.ErrNotExist) || r.Parent != p.Path || len(r.Limits) != 3 {
		t.Errorf("Probe = %+v, and left %v", r, missing)
	}
	for _, l := range r.Limits {
		if l.Applied != (l.Found == "") {
			t.Errorf("Probe says %+v", l)
		}
	}
	t.Logf("%+v", r)
}

// A process joins through what is open, and runs its command as a member.
func TestUnitJoin(t *testing.T) {
	p := place(t)
	u := raw(t, p, "join")
	cmd := exec.Command("/bin/sh", "-c", "echo 0 >&3 && exec 3>&- sleep 311")
	cmd.ExtraFiles = []*os.File{u.Procs()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitMembers(t, u, 1)
	if m := u.Read().Members; m[0].PID != cmd.Process.Pid {
		t.Errorf("the members are %+v", m)
	}
	if _, err := u.Kill(bounded(t)); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

// What is too deep to walk is said and not walked, and can still be ended
// where the kernel has cgroup.kill.
func TestUnitTooDeep(t *testing.T) {
	p := place(t)
	u := raw(t, p, "too-deep")
	top, err := unix.Openat(int(u.Dir().Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range maxDepth + 2 {
		err := unix.Mkdirat(top, "n", 0o700)
		if err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(top, "n", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(top)
		if err != nil {
			t.Fatal(err)
		}
		top = next
	}
	unix.Close(top)
	defer func() { // before the unit is removed
		if err := (&tree{}).remove(int(u.dir.Fd()), -maxDepth); err != nil {
			t.Error(err)
		}
	}()
	if err := u.Remove(bounded(t)); !errors.Is(err, errTooMany) {
		t.Errorf("Remove: %v", err)
	}
	if _, err := u.Signal(unix.SIGTERM); !errors.Is(err, errTooMany) {
		t.Errorf("Signal: %v", err)
	}
	if err := u.ThawAll(); !errors.Is(err, errTooMany) {
		t.Errorf("ThawAll: %v", err)
	}
}

func TestErrors(t *testing.T) {
	e := &ExistsError{Path: "/a"}
	if e.Error() != "cannot make the cgroup /a: it exists" || len(e.Hint()) != 1 {
		t.Error(e, e.Hint())
	}
	left := &OccupiedError{Path: "/a", Err: context.DeadlineExceeded, Unseen: 2, Denied: []int{7, 8}, Members: []verify.Member{{PID: 7, Command: "sleep 1", State: "D"}}}
	const want = "cannot see the cgroup /a empty: context deadline exceeded; members are left: 1, such as pid 7 (sleep 1), state D; not permitted to signal pid 7 8; in other pid namespaces: 2"
	if left.Error() != want || !errors.Is(left, context.DeadlineExceeded) {
		t.Error(left)
	}
}

// BenchmarkUnit is what a raw unit costs beside its process.
func BenchmarkUnit(b *testing.B) {
	h, err := FindHierarchy()
	if err != nil {
		b.Skip("cgroup2: " + err.Error())
	}
	name := fmt.Sprintf("/unitward-test-%d", os.Getpid())
	if err := os.Mkdir(h.mount+name, 0o755); err != nil {
		b.Skipf("cgroup2: cannot make a cgroup: %v", err)
	}
	defer os.Remove(h.mount + name)
	for b.Loop() {
		p, err := FindParent(name)
		if err != nil {
			b.Fatal(err)
		}
		u, err := p.Create("bench")
		if err != nil {
			b.Fatal(err)
		}
		if err := u.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
		u.Close()
	}
}
