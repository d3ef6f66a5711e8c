package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
)

// A manager is given no descriptor that it can do without.
func TestLend(t *testing.T) {
	file := func(name string) *os.File {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	log := filepath.Join(t.TempDir(), "log")
	null, zero, a, apart := file("/dev/null"), file("/dev/zero"), file(log), file(log)
	fd, err := unix.Dup(int(a.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	same := os.NewFile(uintptr(fd), log)
	defer same.Close()
	for _, x := range []struct {
		name          string
		stdin         unit.Input
		output        unit.Output
		io            Stdio
		own           string
		in, out, errs *os.File
		where         unit.Output
	}{
		{name: "nothing", stdin: unit.InputInherit, output: unit.OutputInherit},
		{name: "all", stdin: unit.InputInherit, output: unit.OutputInherit, io: Stdio{In: zero, Out: a, Err: apart}, in: zero, out: a, errs: apart},
		{name: "none is inherited", stdin: unit.InputNull, output: unit.OutputNull, io: Stdio{In: zero, Out: a, Err: apart}},
		{name: "/dev/null", stdin: unit.InputInherit, output: unit.OutputInherit, io: Stdio{In: null, Out: null, Err: null}},
		{name: "one is /dev/null", stdin: unit.InputInherit, output: unit.OutputInherit, io: Stdio{In: null, Out: null, Err: a}, errs: a},
		{name: "the same", stdin: unit.InputInherit, output: unit.OutputInherit, io: Stdio{In: zero, Out: a, Err: same}, in: zero, out: a, errs: a},
		{name: "the same, beside the user's own", stdin: unit.InputInherit, output: unit.OutputInherit, io: Stdio{In: zero, Out: a, Err: same}, own: "StandardOutput=null", in: zero, out: a, errs: same},
		{name: "journal", output: unit.OutputJournal, io: Stdio{Out: a, Err: a}, where: unit.OutputJournal},
		{name: "capture", output: unit.OutputCapture, io: Stdio{Out: a, Err: a}},
	} {
		s, svc := &unit.Spec{Stdin: x.stdin, Output: x.output}, dbusclient.Service{}
		if x.own != "" {
			s.Properties = []string{x.own}
		}
		lend(s, x.io, &svc)
		if svc.Stdin != x.in || svc.Stdout != x.out || svc.Stderr != x.errs || svc.Output != x.where {
			t.Errorf("%s: %v, %v, %v and %q", x.name, svc.Stdin, svc.Stdout, svc.Stderr, svc.Output)
		}
	}
}

// Only of a pipe like any other nobody can tell who opened it.
func TestOpensAnew(t *testing.T) {
	dir := t.TempDir()
	open := func(path string, flags int) *os.File {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	pipe := func(flags int) (r, w *os.File) {
		var fds [2]int
		if err := unix.Pipe2(fds[:], flags|unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		r, w = os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	open(fifo, os.O_RDWR) // so that the next does not wait
	r, w := pipe(0)
	_, waitless := pipe(unix.O_NONBLOCK)
	_, packets := pipe(unix.O_DIRECT)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket, other := os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "other")
	defer socket.Close()
	defer other.Close()
	for _, x := range []struct {
		name   string
		file   *os.File
		access int
		want   bool
	}{
		{"none", nil, unix.O_WRONLY, false},
		{"pipe", w, unix.O_WRONLY, true},
		{"pipe to read from", r, unix.O_RDONLY, true},
		{"wrong end", r, unix.O_WRONLY, false},
		{"file, which has an offset", open(filepath.Join(dir, "file"), os.O_WRONLY|os.O_CREATE), unix.O_WRONLY, false},
		{"FIFO", open(fifo, os.O_WRONLY), unix.O_WRONLY, false},
		{"device", open("/dev/zero", os.O_WRONLY), unix.O_WRONLY, false},
		{"O_NONBLOCK", waitless, unix.O_WRONLY, false},
		{"O_DIRECT", packets, unix.O_WRONLY, false},
		{"socket", socket, unix.O_WRONLY, false},
		{"opened anew, with O_APPEND", open(fmt.Sprintf("/proc/self/fd/%d", w.Fd()), os.O_WRONLY|os.O_APPEND), unix.O_WRONLY, false},
	} {
		for _, m := range []unit.Manager{unit.ManagerUser, unit.ManagerSystem} {
			if got := opensAnew(x.file, x.access, m); got != x.want {
				t.Errorf("%s, %s manager: %v", x.name, m, got)
			}
		}
	}
	if os.Geteuid() != 0 {
		return // nobody else can give a pipe away
	}
	for _, of := range []*os.File{r, w} {
		if err := of.Chown(1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if opensAnew(w, unix.O_WRONLY, unit.ManagerUser) || !opensAnew(w, unix.O_WRONLY, unit.ManagerSystem) {
		t.Error("a user's manager is to open another's pipe, or the system's is not")
	}
}
