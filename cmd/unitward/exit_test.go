package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/verify"
)

func ptr[T any](v T) *T { return &v }

func exited(code int) unit.ExitFact      { return unit.ExitFact{Known: true, Code: &code} }
func signaled(name string) unit.ExitFact { return unit.ExitFact{Known: true, Signal: &name} }

func TestStatusOf(t *testing.T) {
	for _, c := range []struct {
		name      string
		exit      unit.ExitFact
		reason    unit.Reason
		confirmed bool
		kept      bool
		want      int
	}{
		{"zero", exited(0), unit.ReasonCompleted, true, false, 0},
		{"a code", exited(7), unit.ReasonFailed, true, false, 7},
		{"its own 123", exited(123), unit.ReasonFailed, true, false, 123},
		{"its own 124", exited(124), unit.ReasonFailed, true, false, 124},
		{"255", exited(255), unit.ReasonFailed, true, false, 255},
		{"TERM", signaled("TERM"), unit.ReasonSignaled, true, false, 143},
		{"KILL", signaled("KILL"), unit.ReasonSignaled, true, false, 137},
		{"oom", signaled("KILL"), unit.ReasonOOM, true, false, 137},
		{"a real-time signal", signaled("RTMAX"), unit.ReasonSignaled, true, false, 192},
		{"timeout", signaled("TERM"), unit.ReasonTimeout, true, false, 124},
		{"timeout answered with 0", exited(0), unit.ReasonTimeout, true, false, 124},
		{"stopped", exited(0), unit.ReasonCancelled, true, false, 0},
		{"unconfirmed", exited(0), unit.ReasonCompleted, false, false, 123},
		{"unconfirmed signal", signaled("TERM"), unit.ReasonSignaled, false, false, 123},
		{"unconfirmed timeout", signaled("TERM"), unit.ReasonTimeout, false, false, 123},
		{"nothing known", unit.ExitFact{}, unit.ReasonUnknown, false, false, 123},
		{"kept", exited(3), unit.ReasonFailed, false, true, 3},
		{"kept signal", signaled("HUP"), unit.ReasonSignaled, false, true, 129},
		{"kept, and the exit is not known", unit.ExitFact{}, unit.ReasonUnknown, false, true, 123},
		{"kept, and nothing was left", exited(0), unit.ReasonCompleted, true, true, 0},
		{"start failed", unit.ExitFact{}, unit.ReasonStartFailed, true, false, 123},
	} {
		rep := unit.Report{Exit: c.exit, Reason: &c.reason, Confirmed: c.confirmed}
		if got := statusOf(rep, c.kept); got != c.want {
			t.Errorf("%s: statusOf = %d, want %d", c.name, got, c.want)
		}
	}
	if got := statusOf(unit.Report{Exit: exited(5), Confirmed: true}, false); got != 5 {
		t.Errorf("without a reason: %d", got)
	}
}

func TestWaited(t *testing.T) {
	empty := unit.TreeFact{Empty: true}
	for _, c := range []struct {
		name string
		rep  unit.Report
		fact launch.Fact
		want int
	}{
		{"exit", unit.Report{Exit: exited(3)}, launch.FactExit, 3},
		{"exit that is lost", unit.Report{}, launch.FactExit, 123},
		{"tree", unit.Report{Exit: exited(3), Tree: empty, Confirmed: true}, launch.FactTree, 3},
		{"tree, the exit lost", unit.Report{Tree: empty}, launch.FactTree, 123},
		{"settled", unit.Report{Exit: exited(3), Tree: empty, Confirmed: true}, launch.FactSettled, 3},
		{"settled never", unit.Report{Exit: exited(3)}, launch.FactSettled, 123},
	} {
		if got := waited(c.rep, c.fact); got != c.want {
			t.Errorf("%s: waited = %d, want %d", c.name, got, c.want)
		}
	}
}

// files are streams that can be read back.
func files(t *testing.T) (s streams, read func() (out, errs string)) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	s = streams{In: open("in"), Out: open("out"), Err: open("err")}
	return s, func() (string, string) {
		out, err1 := os.ReadFile(s.Out.Name())
		errs, err2 := os.ReadFile(s.Err.Name())
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return string(out), string(errs)
	}
}

func TestFail(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		errs   string
	}{
		{&statusError{7}, 7, ""},
		{fmt.Errorf("x: %w", &statusError{124}), 124, ""},
		{errors.New("cannot do it"), 125, "unitward: cannot do it\n"},
		{&usageError{"cannot do it", "do that"}, 125, "unitward: cannot do it\nhint: do that\n"},
		{&usageError{"cannot do it", ""}, 125, "unitward: cannot do it\n"},
		{&unit.StartError{Unit: "f", Detail: "no", Status: 127}, 127, "unitward: cannot start f: no\n"},
		{fmt.Errorf("x: %w", &unit.StartError{Unit: "f", Detail: "no", Status: 126}), 126, "unitward: x: cannot start f: no\n"},
		{&unit.AccessError{Op: "start f", Manager: unit.ManagerUser, Detail: "no"}, 125, "unitward: cannot start f: the user manager denies it: no\n"},
		{&unit.RecordLostError{Name: "f", Err: errors.New("no")}, 123, "unitward: cannot keep job f, which ran and was ended again: no\n"},
		{&unit.ExistsError{Name: "f", State: unit.StateRunning}, 125,
			"unitward: cannot start job f: a job of that name exists and is running\nhint: end it with: unitward stop f\nhint: or take another name with -u\n"},
	} {
		for _, asJSON := range []bool{false, true} {
			s, read := files(t)
			if got := fail(c.err, asJSON, s); got != c.status {
				t.Errorf("fail(%v) = %d, want %d", c.err, got, c.status)
			}
			out, errs := read()
			if errs != c.errs {
				t.Errorf("fail(%v) prints %q, want %q", c.err, errs, c.errs)
			}
			if !asJSON || c.errs == "" {
				if out != "" {
					t.Errorf("fail(%v) prints %q on stdout", c.err, out)
				}
				continue
			}
			var o struct {
				Error struct {
					Message string
					Hints   []string
					Status  int
				}
			}
			if err := json.Unmarshal([]byte(out), &o); err != nil || o.Error.Message != c.err.Error() || o.Error.Status != c.status || o.Error.Hints == nil ||
				len(o.Error.Hints) != strings.Count(c.errs, "hint: ") {
				t.Errorf("fail(%v) as JSON: %s, %v", c.err, out, err)
			}
		}
	}
}

func TestPrintReport(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.Local)
	full := unit.Report{
		Name: "foo", Command: []string{"make", "a\nb"}, State: unit.StateSettled, Unit: "foo.service", Manager: unit.ManagerUser, PID: 42,
		StartedAt: &at, EndedAt: &at, DurationMS: ptr(int64(1500)), Reason: ptr(unit.ReasonFailed), Exit: exited(2), Confirmed: true,
		Tree:   unit.TreeFact{Empty: true, Source: "populated 0"},
		Limits: []unit.Limit{{Name: "TasksMax", Asked: "9", Found: "none"}}, Stop: unit.Stop{Steps: []unit.Step{{At: at, Action: "TERM"}}},
	}
	stuck := unit.Report{
		Name: "foo", State: unit.StateEnded, Exit: signaled("TERM"), Reason: ptr(unit.ReasonSignaled), Remedy: ptr("do that"),
		Tree:    unit.TreeFact{Source: "populated 1", Members: []verify.Member{{PID: 9, Command: "sleep 1"}}},
		Missing: []verify.Missing{{What: verify.MissingEmpty, Looked: "cgroup.events", Said: "populated 1"}},
	}
	for _, c := range []struct {
		rep  unit.Report
		want []string
	}{
		{full, []string{"foo - make a?b\n", "   journal  journalctl -u foo.service\n", "settled, failed (2)\n", "after 1.5s\n", "TasksMax=9: not applied, none\n", "empty, by populated 0\n", "TERM at 05:06:07\n"}},
		{stuck, []string{"ended, signaled (SIGTERM)\n", "populated 1 9 (sleep 1)\n", "empty unit: cgroup.events said populated 1\n", "next  do that\n"}},
		{unit.Report{Name: "foo", State: unit.StateRunning}, []string{"state  running\n"}},
		// Nothing of it ran, so it has an end and no duration.
		{(&unit.Record{Name: "foo", Command: []string{"x"}}).StartFailed(at, "no such file"), []string{"settled, start-failed\n", "ended  "}},
	} {
		var b strings.Builder
		if err := printReport(&b, c.rep, "", []place{{"journal", "journalctl -u foo.service"}}, true); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q is not in\n%s", want, b.String())
			}
		}
		if !strings.HasPrefix(b.String(), "\n") || strings.Count(b.String(), "\n\n") != 0 {
			t.Errorf("it is not one block:\n%s", b.String())
		}
	}
}

func TestMemberListIsBounded(t *testing.T) {
	var ms []verify.Member
	for i := range 20 {
		ms = append(ms, verify.Member{PID: i, Command: "x"})
	}
	if got := memberList(ms); strings.Count(got, "(x)") != 8 || !strings.HasSuffix(got, " and 12 more") {
		t.Errorf("memberList = %q", got)
	}
	if got := commandLine([]string{strings.Repeat("ö", 100)}, 10); got != strings.Repeat("ö", 9)+"…" {
		t.Errorf("commandLine = %q", got)
	}
}

// A job, its user or another program chooses what is shown of a process.
func TestWhatIsShownActsOnNoTerminal(t *testing.T) {
	evil := "a\x1b]0;x\a\u009b2J\nb\u202ec"
	m := verify.Member{PID: 1, Command: evil, Cgroup: evil}
	for _, got := range []string{commandLine([]string{evil}, 99), memberList([]verify.Member{m}), strings.TrimSuffix(leftLines("", unit.Report{LeftUnit: []verify.Member{m}}), "\n")} {
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsGraphic(r) }) || !strings.Contains(got, "a?]0;x??2J?b?c") {
			t.Errorf("it shows %q", got)
		}
	}
}

func TestReportTarget(t *testing.T) {
	dir := t.TempDir()
	for target, says := range map[string]string{
		"fd:": "number is expected", "fd:x": "number is expected", "fd:-1": "number is expected", "fd:999": "not open",
		dir: "is a directory", dir + "/no/file": "no such file",
	} {
		if _, err := openReport(target); !errors.Is(err, unit.ErrUsage) || !strings.Contains(err.Error(), says) {
			t.Errorf("openReport(%s) = %v, want %q", target, err, says)
		}
	}
	sink, err := openReport(dir + "/report")
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Write(unit.Report{Name: "a<b"}); err != nil {
		t.Fatal(err)
	}
	sink.Close()
	b, err := os.ReadFile(dir + "/report")
	if err != nil || !strings.Contains(string(b), `"name":"a<b"`) || strings.Count(string(b), "\n") != 1 {
		t.Errorf("%s, %v", b, err)
	}
	var none reportSink
	if err := none.Write(unit.Report{}); err != nil {
		t.Error(err)
	}
	none.Close()
	if err := printJSON(io.Discard, 1); err != nil {
		t.Error(err)
	}
}

// What the system says by itself gets its sentence and its way out.
func TestFailOfTheSystem(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&fs.PathError{Op: "write", Path: os.Stdout.Name(), Err: syscall.ENOSPC}, "unitward: cannot write to standard output: no space left on device\n"},
		{&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, "unitward: write /x: no space left on device\n"},
		{fmt.Errorf("cannot start x: %w", syscall.EMFILE), "unitward: cannot start x: too many open files\nhint: raise the limit of descriptors, such as with: ulimit -n 256\n"},
	} {
		errs, err := os.Create(filepath.Join(t.TempDir(), "errs"))
		if err != nil {
			t.Fatal(err)
		}
		fail(c.err, false, streams{Err: errs})
		errs.Close()
		if b, err := os.ReadFile(errs.Name()); err != nil || string(b) != c.want {
			t.Errorf("%v: %q, %v, want %q", c.err, b, err, c.want)
		}
	}
}
