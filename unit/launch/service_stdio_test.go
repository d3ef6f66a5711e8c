package launch

import (
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
