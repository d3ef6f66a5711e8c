package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/keeper"
	"github.com/unitward/unitward/verify"
)

func TestNeverRan(t *testing.T) {
	dir := tree(t, map[string]string{"good": script, "gone": "#!/nonexistent\n", "plain-": script})
	spec := func(name string, change ...func(*unit.Spec)) *unit.Spec {
		s := &unit.Spec{Path: filepath.Join(dir, name)}
		for _, f := range change {
			f(s)
		}
		return s
	}
	property := func(s *unit.Spec) { s.Properties = []string{"RootDirectory=/x"} }
	limit := func(s *unit.Spec) { s.Properties = []string{"MemoryMax=1G"} }
	gone := func(s *unit.Spec) { s.Dir = filepath.Join(dir, "no-directory") }
	here := func(s *unit.Spec) { s.Dir = dir }
	before := func(s *unit.Spec) { s.Properties = []string{"ExecStartPre=/bin/false"} }
	uid := func(s *unit.Spec) { s.UID = "nobody" }
	gid := func(s *unit.Spec) { s.GID = "nogroup" }
	reading := func(version int, code, status int32, handoff bool) dbusclient.Reading {
		r := dbusclient.Reading{Unit: verify.Unit{Read: true, ManagerVersion: version, ExecMainCode: code, ExecMainStatus: status, Result: "exit-code"}, MainPID: 42}
		if handoff {
			r.HandoffAt = time.Unix(1, 0)
		}
		return r
	}
	nothing := reading(252, 0, 0, false)
	nothing.MainPID = 0
	unseen := nothing
	unseen.LoadState = "not-found"
	told := unseen
	told.InvocationID = "0123456789abcdef0123456789abcdef"
	later := func(r dbusclient.Reading, version int) dbusclient.Reading {
		r.ManagerVersion = version
		return r
	}
	in := func(state string, r dbusclient.Reading) dbusclient.Reading {
		r.LoadState, r.ActiveState = "loaded", state
		return r
	}
	for _, c := range []struct {
		name, result string
		s            *unit.Spec
		r            dbusclient.Reading
		status       int // 0: it ran
		step, says   string
	}{
		{"done", "done", spec("gone"), reading(257, 1, 203, false), 0, "", ""},
		{"not known", "", spec("gone"), reading(257, 1, 203, false), 0, "", ""},
		{"not told, and it goes on", "", spec("gone"), in("deactivating", nothing), 0, "", ""},
		{"not told, and it is over", "", spec("gone"), in("failed", nothing), 125, "", `"exit-code"`},
		{"not told, and it was not executed", "", spec("gone"), in("failed", reading(257, 1, 203, false)), 127, "EXEC", "nonexistent"},
		{"not told, and it was", "", spec("gone"), in("failed", reading(257, 1, 203, true)), 0, "", ""},
		{"not read", "failed", spec("gone"), dbusclient.Reading{}, 0, "", ""},
		{"dependency", "dependency", spec("good"), reading(257, 0, 0, false), 125, "", "depends on"},
		{"nothing executed", "failed", spec("good"), nothing, 125, "", `"failed"`},
		{"an assertion", "assert", spec("good", before), nothing, 125, "", "an Assert…= among -p"},
		{"what goes before failed", "failed", spec("good", before), nothing, 125, "", "of ExecStartPre= goes before"},
		{"the job took too long, not what goes before", "timeout", spec("good", before), nothing, 125, "", "longer than the start job may"},
		{"gone, and nothing was told", "failed", spec("good"), unseen, 0, "", ""},
		{"256: gone, and nothing was told", "failed", spec("good"), later(unseen, 256), 125, "", "forgotten"},
		{"gone from a version that is not known", "failed", spec("good"), later(unseen, 0), 0, "", ""},
		{"gone, and no process was told of", "failed", spec("good"), told, 125, "", `"failed"`},
		{"canceled and gone", "canceled", spec("good"), unseen, 125, "", `"canceled"`},
		{"canceled before", "canceled", spec("good"), nothing, 125, "", `"canceled"`},

		{"256: executed, and 203 is its own", "failed", spec("gone"), reading(256, 1, 203, true), 0, "", ""},
		{"256: not executed", "failed", spec("gone"), reading(256, 1, 203, false), 127, "EXEC", "nonexistent"},
		{"256: not executed, permission", "failed", spec("plain"), reading(262, 1, 203, false), 126, "EXEC", "permission denied"},
		{"256: not executed, though it could", "failed", spec("good"), reading(257, 1, 203, false), 126, "EXEC", "203"},
		{"256: no directory", "failed", spec("good"), reading(257, 1, 200, false), 125, "CHDIR", "200"},
		{"256: which directory", "failed", spec("good", here), reading(257, 1, 200, false), 125, "CHDIR", "working directory " + dir + " cannot"},
		{"256: which directory of a property", "failed", spec("good", func(s *unit.Spec) { s.Properties = []string{"WorkingDirectory=/secret"} }), reading(257, 1, 200, false), 125, "CHDIR", "working directory /secret cannot"},
		{"256: a file", "failed", spec("good", func(s *unit.Spec) { s.Properties = []string{"OpenFile=/x:n"} }), reading(257, 1, 202, false), 125, "FDS", "opened: OpenFile=/x:n"},
		{"256: and what is said of it", "failed", spec("good"), reading(257, 1, 202, false), 125, "FDS", "journalctl -u foo.service"},
		{"256: what has no cause of its own", "failed", spec("good"), reading(257, 1, 205, false), 125, "LIMITS", "journalctl -u foo.service"},
		{"256: secure bits", "failed", spec("good"), reading(257, 1, 213, false), 125, "SECUREBITS", "secure bits"},
		{"256: namespace", "failed", spec("good"), reading(257, 1, 226, false), 125, "NAMESPACE", "226"},
		{"256: the last", "failed", spec("good"), reading(257, 1, 245, false), 125, "BPF", "245"},
		{"256: beyond the last", "failed", spec("good"), reading(257, 1, 246, false), 0, "", ""},
		{"256: before the first", "failed", spec("good"), reading(257, 1, 199, false), 0, "", ""},
		{"256: a signal of such a number", "failed", spec("good"), reading(257, 2, 203, false), 0, "", ""},
		{"256: a common code", "failed", spec("good"), reading(257, 1, 1, false), 0, "", ""},

		{"252: 203 of a good program is its own", "failed", spec("good"), reading(252, 1, 203, false), 0, "", ""},
		{"252: 203 of one that cannot run", "failed", spec("gone"), reading(252, 1, 203, false), 127, "EXEC", "nonexistent"},
		{"252: 203 of one that may not run", "failed", spec("plain"), reading(255, 1, 203, false), 126, "EXEC", "permission"},
		{"252: 203 where a property can hide it", "failed", spec("good", property), reading(252, 1, 203, false), 126, "EXEC", "203"},
		{"252: 217 without a user asked", "failed", spec("good"), reading(252, 1, 217, false), 0, "", ""},
		{"252: 217 with a user asked", "failed", spec("good", uid), reading(252, 1, 217, false), 125, "USER", "217"},
		{"256: the user namespace", "failed", spec("good", func(s *unit.Spec) { s.Properties = []string{"UserNamespacePath=/x"} }), reading(262, 1, 217, false), 125, "USER", "user namespace"},
		{"252: 216 with a group asked", "failed", spec("good", gid), reading(252, 1, 216, false), 125, "GROUP", "216"},
		{"252: a fast exit", "failed", spec("good"), reading(252, 1, 3, false), 0, "", ""},
		{"252: a fast exit with properties", "failed", spec("good", property), reading(252, 1, 3, false), 0, "", ""},
		{"252: 200 of a directory that cannot be entered", "failed", spec("good", gone), reading(252, 1, 200, false), 125, "CHDIR", "no-directory: no such file"},
		{"252: 200 in a directory that can be", "failed", spec("good", here), reading(252, 1, 200, false), 0, "", ""},
		{"252: done, though it was not executed", "done", spec("good", uid), reading(252, 1, 217, false), 125, "USER", "217"},
		{"252: done, and it ran", "done", spec("good"), reading(252, 1, 217, false), 0, "", ""},
		{"252: 203 where a property cannot hide it", "failed", spec("good", limit), reading(252, 1, 203, false), 0, "", ""},
		{"256: done is done", "done", spec("good", uid), reading(256, 1, 217, false), 0, "", ""},
		{"0: unknown version is an old one", "failed", spec("good"), reading(0, 1, 203, false), 0, "", ""},
	} {
		err := neverRan(c.s, "foo.service", c.result, c.r)
		var start *unit.StartError
		switch {
		case c.status == 0 && err != nil:
			t.Errorf("%s: neverRan = %v, and it ran", c.name, err)
		case c.status == 0:
		case !errors.As(err, &start) || start.Status != c.status || start.Step != c.step || !strings.Contains(start.Detail+strings.Join(start.Hints, ""), c.says):
			t.Errorf("%s: neverRan = %#v; want status %d, step %q, %q", c.name, err, c.status, c.step, c.says)
		}
	}
}

func TestMayEnter(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		about string
		s     unit.Spec
		says  string
	}{
		{"a directory", unit.Spec{Dir: dir}, ""},
		{"none", unit.Spec{}, ""},
		{"one that is not there", unit.Spec{Dir: dir + "/no"}, "no such file"},
		{"a file", unit.Spec{Dir: file}, "not a directory"},
		{"as another user, who may see more", unit.Spec{Dir: dir + "/no", UID: "nobody"}, ""},
		{"with a property that makes it", unit.Spec{Dir: dir + "/no", Properties: []string{"BindPaths=/x:/y"}}, ""},
		{"with one that does not", unit.Spec{Dir: dir + "/no", Properties: []string{"TasksMax=9"}}, "no such file"},
	} {
		err := mayEnter(&c.s, "foo.service")
		var start *unit.StartError
		if c.says == "" && err != nil || c.says != "" && (!errors.As(err, &start) || start.Status != 125 || start.Step != "CHDIR" || !strings.Contains(start.Detail, c.says)) {
			t.Errorf("%s: %v", c.about, err)
		}
	}
}

func TestBecomeFailed(t *testing.T) {
	s := &unit.Spec{Path: "/p", Dir: "/d"}
	for _, c := range []struct {
		err          error
		status       int
		step, detail string
	}{
		{&keeper.BecomeError{Op: "exec", Errno: syscall.ENOENT}, 127, "exec", "/p: no such file or directory"},
		{&keeper.BecomeError{Op: "exec", Errno: syscall.ENOTDIR}, 127, "exec", "/p: not a directory"},
		{&keeper.BecomeError{Op: "exec", Errno: syscall.EACCES}, 126, "exec", "/p: permission denied"},
		{&keeper.BecomeError{Op: "exec", Errno: syscall.E2BIG}, 126, "exec", "/p: argument list too long"},
		{&keeper.BecomeError{Op: "chdir", Errno: syscall.ENOENT}, 125, "chdir", "/d: no such file or directory"},
		{&keeper.BecomeError{Op: "setrlimit", Errno: syscall.EINVAL}, 125, "setrlimit", "invalid argument"},
		{errors.New("odd"), 125, "", "odd"},
	} {
		var start *unit.StartError
		if err := becomeFailed("foo.service", s, c.err); !errors.As(err, &start) || start.Status != c.status || start.Step != c.step || start.Detail != c.detail {
			t.Errorf("becomeFailed(%v) = %#v", c.err, err)
		}
	}
}

func TestControllerOf(t *testing.T) {
	for property, want := range map[string][2]string{
		"MemoryMax": {"memory", "memory.max"}, "TasksMax": {"pids", "pids.max"}, "CPUQuota": {"cpu", "cpu.max"}, "": {}, "IOWeight": {},
	} {
		if c, f := controllerOf(property); [2]string{c, f} != want {
			t.Errorf("controllerOf(%q) = %s, %s; want %v", property, c, f, want)
		}
	}
}

func TestReached(t *testing.T) {
	exit := verify.Verdict{Exit: verify.Exit{Known: true}}
	tree := verify.Verdict{Tree: verify.Tree{Empty: true}}
	both := verify.Verdict{Exit: exit.Exit, Tree: tree.Tree, Confirmed: true}
	for _, c := range []struct {
		fact             Fact
		exit, tree, both bool
	}{
		{FactExit, true, false, true}, {FactTree, false, true, true}, {FactSettled, false, false, true},
	} {
		if reached(c.fact, exit) != c.exit || reached(c.fact, tree) != c.tree || reached(c.fact, both) != c.both || reached(c.fact, verify.Verdict{}) {
			t.Errorf("%s: exit %v, tree %v, both %v", c.fact, reached(c.fact, exit), reached(c.fact, tree), reached(c.fact, both))
		}
	}
}

func TestRuntimeDirIsPrivate(t *testing.T) {
	dir := t.TempDir()
	uid := os.Geteuid()
	l := &Launcher{cfg: Config{UID: 1 << 30, StateDir: dir, Getenv: func(string) string { return dir }}}
	if got, err := l.runtimeDir(); err == nil {
		t.Errorf("a directory of uid %d for uid %d: %s", uid, l.cfg.UID, got)
	}
	if err := os.Chmod(dir+"/unitward", 0o755); err != nil {
		t.Fatal(err)
	}
	if uid == 0 {
		return // root's is /run, which a test leaves alone
	}
	l.cfg.UID = uid
	if got, err := l.runtimeDir(); err == nil && got == dir+"/unitward" {
		t.Error("a directory that others can read is used")
	}
	if err := os.Chmod(dir+"/unitward", 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := l.runtimeDir(); err != nil || got != dir+"/unitward" {
		t.Errorf("runtimeDir = %s, %v", got, err)
	}
}

// A status of systemd's own comes with what it mostly means, and a way out.
func TestCauseOf(t *testing.T) {
	for _, code := range []int{200, 213, 216, 217, 218, 225, 226, 228, 233, 238, 239, 240, 241, 243} {
		for _, m := range []unit.Manager{unit.ManagerUser, unit.ManagerSystem} {
			if cause, hint := causeOf(&unit.Spec{Manager: m}, code); cause == "" || hint == "" || stepName(code) == "" {
				t.Errorf("%d of the %s manager: %q, %q", code, m, cause, hint)
			}
		}
	}
	for want, s := range map[string]*unit.Spec{
		"leave out --uid and --gid, or":                     {UID: "a", GID: "b"},
		"leave out -p 'SupplementaryGroups=daemon', or":     {Properties: []string{"SupplementaryGroups=daemon"}},
		"leave out --gid and -p 'SupplementaryGroups=', or": {GID: "b", Properties: []string{"SupplementaryGroups="}},
		"leave out what asks for another, or":               {},
	} {
		s.Manager = unit.ManagerUser
		if _, hint := causeOf(s, 216); !strings.HasPrefix(hint, want) {
			t.Errorf("%+v: %q; want %q", s, hint, want)
		}
	}
	if cause, hint := causeOf(&unit.Spec{}, 203); cause != "" || hint != "" {
		t.Errorf("203: %q, %q", cause, hint)
	}
}

func TestNiceOf(t *testing.T) {
	five := 5
	for _, c := range []struct {
		s    unit.Spec
		want int
		ok   bool
	}{
		{unit.Spec{}, 0, false},
		{unit.Spec{Nice: &five}, 5, true},
		{unit.Spec{Properties: []string{"Nice=-5"}}, -5, true},
		{unit.Spec{Nice: &five, Properties: []string{"Nice=-5", "Nice=-6"}}, -6, true},
		{unit.Spec{Nice: &five, Properties: []string{"Nice=x"}}, 5, true},
	} {
		if got, ok := niceOf(&c.s); got != c.want || ok != c.ok {
			t.Errorf("niceOf(%v) = %d, %v", c.s, got, ok)
		}
	}
}
