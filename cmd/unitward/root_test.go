package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/launch"
	"github.com/unitward/unitward/unit/store"
)

// alone puts the test where no manager can be found by the environment, and
// returns its state directory.
// TestMain lets this program be what unitward executes of itself.
func TestMain(m *testing.M) {
	if asShell(os.Args[0]) || len(os.Args) == 3 && strings.HasPrefix(os.Args[1], "_") {
		os.Exit(enter(os.Args))
	}
	if args := os.Getenv("UNITWARD_TEST_ARGS"); args != "" {
		os.Exit(execute(strings.Fields(args), streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

func alone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	for name, value := range map[string]string{
		"HOME": dir, "UNITWARD_STATE_DIR": state, "XDG_RUNTIME_DIR": dir, "XDG_STATE_HOME": dir, "DBUS_SESSION_BUS_ADDRESS": "", "PATH": "/usr/bin:/bin",
	} {
		t.Setenv(name, value)
	}
	t.Chdir(dir)
	return state
}

// unmanaged skips where the user has a manager, which has sockets at a fixed
// path: a test that runs everywhere starts nothing there.
func unmanaged(t *testing.T) {
	t.Helper()
	for _, name := range []string{"bus", "systemd/private"} {
		if p := fmt.Sprintf("/run/user/%d/%s", os.Geteuid(), name); exists(p) {
			t.Skipf("%s is there: this user has a manager", p)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func do(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	s, read := files(t)
	status = execute(args, s)
	out, errs = read()
	return status, out, errs
}

var verbs = []string{"run", "start", "wait", "status", "list", "stop", "kill", "pause", "resume", "verify", "doctor", "logs"}

func TestHelp(t *testing.T) {
	alone(t)
	status, out, errs := do(t, "--help")
	if status != 0 || errs != "" {
		t.Errorf("--help: %d, %q", status, errs)
	}
	for _, verb := range verbs {
		if !strings.Contains(out, "\n  "+verb+" ") {
			t.Errorf("--help does not list %s:\n%s", verb, out)
		}
		status, own, errs := do(t, verb, "--help")
		if status != 0 || errs != "" || !strings.Contains(own, "unitward "+verb) {
			t.Errorf("%s --help: %d, %q, %q", verb, status, errs, own)
		}
	}
	for _, hidden := range []string{launch.BecomeVerb, launch.RecordVerb} {
		if strings.Contains(out, hidden) {
			t.Errorf("--help shows %s", hidden)
		}
	}
}

func TestUsage(t *testing.T) {
	state := alone(t)
	for _, c := range []struct {
		args string
		says string
	}{
		{"", "no verb was given"},
		{"make test", `the verb "make"`},
		{"--nonsense", "unknown flag"},
		{"run", "no command was given"},
		{"run --", "no command was given"},
		{"run --nonsense true", "unknown flag"},
		{"run -u .x true", `starts with '.'`},
		{"run -u a/b true", "byte"},
		{"run -u x.scope true", ".scope"},
		{"run --user --system true", "together"},
		{"run --isolation vm true", `--isolation "vm"`},
		{"run --slice x true", "slice"},
		{"run --timeout x true", `--timeout "x"`},
		{"run --timeout 0 true", "longer than nothing"},
		{"run --timeout -1s true", "not a time"},
		{"run --grace x true", `--grace "x"`},
		{"run --kill-signal NONSENSE true", "no such signal"},
		{"run --kill-signal 65 true", "no such signal"},
		{"run --leftovers x true", "one of kill, wait, keep"},
		{"run --lifetime x true", "one of call, owner, detached"},
		{"run --lifetime owner true", "no owner was named"},
		{"run --owner-pid 1 true", "add --lifetime owner"},
		{"run --stdin x true", "one of null, inherit"},
		{"run --output x true", "one of capture, inherit, journal, null"},
		{"run --nice 20 true", "-20 to 19"},
		{"run --nice -21 true", "-20 to 19"},
		{"run --nice x true", "a whole number is expected"},
		{"run --memory-max x true", "MemoryMax"},
		{"run --tasks-max x true", "TasksMax"},
		{"run --cpu-quota x true", "CPUQuota"},
		{"run -p NoSuchThing=1 true", "NoSuchThing"},
		{"run -E =x true", "NAME=VALUE"},
		{"run -E NOT_SET_ANYWHERE true", "no such variable"},
		{"run --report fd:x true", "number is expected"},
		{"run --expand-environment maybe true", "yes or no is expected"},
		{"run --host h --user true", "ssh h unitward run --user"},
		{"run --host h --machine m true", "--host HOST/MACHINE"},
		{"run --host -oProxyCommand=x true", "[USER@]HOST[:PORT][/CONTAINER] is expected"},
		{"run --machine a/b true", "[USER@]NAME is expected"},
		{"run --host h --pty true", "streams do not go there"},
		{"run --host h -P true", "streams do not go there"},
		{"run --host h --output capture true", "streams do not go there"},
		{"run --host h --stdin inherit true", "streams do not go there"},
		{"run --host h -S", "streams do not go there"},
		{"start --host h --pty true", "streams do not go there"},
		{"run --host h -E A=b true", "-p LoadCredential=ID:PATH"},
		{"run --host h --clean-env true", "the environment that its manager gives"},
		{"run --host h --scope true", "nothing but a service is seen"},
		{"run --host h --isolation cgroup,group true", "nothing but a service is seen"},
		{"run --host h --lifetime call true", "nobody there watches"},
		{"start -M m --lifetime owner --owner-pid 1 true", "nobody there watches"},
		{"run --host h --require-limits --memory-max 1M true", "not seen from here"},
		{"run --host h --slice-inherit true", "the caller is in no slice there"},
		{"run --host h --working-directory x true", "an absolute path is expected"},
		{"start --host h --on-active 1h true", "run unitward there"},
		{"run -C c true", "another user's"},
		{"run --shell true", "the shell is the command"},
		{"run -T --output null true", "the terminal takes the job's output"},
		{"run --json=yaml true", "short, pretty or off"},
		{"run --scope --root-directory / true", "service is expected"},
		{"run --isolation cgroup --root-directory / true", "service is expected"},
		{"run --pty --detach-keys ^1 true", "no key of Ctrl and"},
		{"run --detach-keys none true", "without --pty"},
		{"run --pty --output null true", "the terminal takes the job's output"},
		{"run --pty --stdin null true", "the terminal is the job's input"},
		{"start", "no command was given"},
		{"start --lifetime call true", "it would end with this command"},
		{"wait", "no job was named"},
		{"wait --for nonsense x", "exit, tree, settled"},
		{"wait --timeout x y", "not a time"},
		{"wait x/y", "byte"},
		{"status", "no job was named"},
		{"stop", "no job was named"},
		{"stop --grace x y", "not a time"},
		{"kill", "no job was named"},
		{"kill -s NONSENSE x", "no such signal"},
		{"kill --who nobody x", "main or all"},
		{"pause", "no job was named"},
		{"resume", "no job was named"},
		{"verify", "no job was named"},
		{"verify a b", "one job at a time"},
		{"list x", "no arguments"},
		{"logs", "no job was named"},
		{"logs a b", "one job at a time"},
		{"logs --stream both x", "stdout or stderr"},
		{"logs --tail -1 x", "invalid argument"},
		{"logs --tail x y", "invalid argument"},
		{"logs --cursor o1 x", `cursor "o1"`},
		{"doctor x", "no arguments"},
		{"help nope", `help with "nope"`},
		{"help run nope", `help with "run nope"`},
		{"run --user=x true", "yes or no is expected"},
		{"run --owner-pid x true", "a whole number is expected"},
		{"run --report - true", "standard output is the job's"},
		{"run -E UNITWARD_JOB=x true", "unitward sets it"},
		{"run -E UNITWARD_JOB true", "unitward sets it"},
		{"run -u a\xff true", `\xff`},
		{"run --description \xff true", "not valid UTF-8"},
		{"run --owner a\xff true", "not valid UTF-8"},
	} {
		status, out, errs := do(t, strings.Fields(c.args)...)
		lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
		if status != exitError || out != "" || !strings.HasPrefix(lines[0], "unitward: cannot ") || !strings.Contains(errs, c.says) {
			t.Errorf("%q: status %d, %q, %q; want 125 and %q", c.args, status, out, errs, c.says)
		}
		for _, l := range lines[1:] {
			if !strings.HasPrefix(l, "hint: ") {
				t.Errorf("%q: more than one line: %q", c.args, errs)
			}
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("a mistake left %v", entries)
	}
}

// A value that was given and is empty is a mistake, whatever the option.
func TestEmptyValues(t *testing.T) {
	state := alone(t)
	checked := 0
	takesValue := regexp.MustCompile(`(?m)^ .*--([a-z-]+) [^ ]`)
	for _, name := range verbs {
		_, help, _ := do(t, name, "--help")
		for _, m := range takesValue.FindAllStringSubmatch(help, -1) {
			option := "--" + m[1]
			args := []string{name, option, "", "true"}
			if name == "list" || name == "doctor" {
				args = args[:3]
			}
			checked++
			status, out, errs := do(t, args...)
			if status != exitError || out != "" || !strings.HasPrefix(errs, "unitward: cannot ") || !strings.Contains(errs, strings.TrimPrefix(option, "--")) {
				t.Errorf("%q: status %d, %q, %q", args, status, out, errs)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d options were tried", checked)
	}
	if exists(state) {
		t.Error("a mistake left something")
	}
}

func TestUsageLines(t *testing.T) {
	alone(t)
	for _, verb := range append([]string{"help"}, verbs...) {
		if _, out, _ := do(t, verb, "--help"); strings.Contains(out, "[flags]") || !strings.Contains(out, "\n  unitward "+verb) {
			t.Errorf("%s:\n%s", verb, out)
		}
		if status, out, errs := do(t, "help", verb); status != 0 || errs != "" || !strings.Contains(out, "\n  unitward "+verb) {
			t.Errorf("help %s: %d, %q\n%s", verb, status, errs, out)
		}
	}
	if _, out, _ := do(t, "help"); strings.Contains(out, "[flags]") || !strings.Contains(out, "--version") {
		t.Errorf("help:\n%s", out)
	}
}

func TestCommandThatCannotRun(t *testing.T) {
	alone(t)
	if err := os.WriteFile("plain", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]int{"./plain": 126, "/": 126, "./missing": 127, "no-such-command-anywhere": 127, "./plain/x": 127} {
		for _, verb := range []string{"run", "start"} {
			if status, out, errs := do(t, verb, "--user", "--", command); status != want || out != "" || !strings.HasPrefix(errs, "unitward: cannot start "+command) {
				t.Errorf("%s %s: status %d, %q, %q; want %d", verb, command, status, out, errs, want)
			}
		}
	}
}

func TestWithoutAManager(t *testing.T) {
	state := alone(t)
	unmanaged(t)
	for _, verb := range []string{"run", "start"} {
		status, out, errs := do(t, verb, "--user", "-u", "foo", "--", "true")
		lines := strings.Split(errs, "\n")
		if status != exitError || out != "" || len(lines) != 4 || !strings.HasPrefix(lines[0], "unitward: cannot reach the user manager: ") ||
			!strings.HasPrefix(lines[1], "hint: ") || !strings.Contains(lines[0], "/bus: no such file or directory") {
			t.Errorf("%s: status %d, %q, %q", verb, status, out, errs)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(state, "jobs")); len(entries) != 0 {
		t.Errorf("nothing was started, and it left %v", entries)
	}
	status, out, _ := do(t, "--json", "run", "--user", "--", "true")
	var o struct{ Error errorBody }
	if err := json.Unmarshal([]byte(out), &o); err != nil || status != exitError || o.Error.Status != exitError || len(o.Error.Hints) != 2 {
		t.Errorf("as JSON: %d, %s, %v", status, out, err)
	}
}

func TestUnknownJob(t *testing.T) {
	alone(t)
	for _, args := range []string{"wait foo", "status foo", "stop foo", "kill foo", "pause foo", "resume foo", "verify foo.service", "logs foo"} {
		status, out, errs := do(t, strings.Fields(args)...)
		if status != exitError || out != "" || !strings.HasPrefix(errs, "unitward: cannot find job foo: ") {
			t.Errorf("%s: status %d, %q, %q", args, status, out, errs)
		}
	}
	if status, out, errs := do(t, "list"); status != 0 || errs != "" || !strings.HasPrefix(out, "NAME ") || strings.Count(out, "\n") != 1 {
		t.Errorf("list: %d, %q, %q", status, out, errs)
	}
	if status, out, errs := do(t, "list", "--json"); status != 0 || errs != "" || out != "[]\n" {
		t.Errorf("list --json: %d, %q, %q", status, out, errs)
	}
}

// A sealed job needs no manager any more.
func TestSettledJob(t *testing.T) {
	state := alone(t)
	s, err := store.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	rec := &unit.Record{Schema: unit.RecordSchema, Name: "foo", Command: []string{"false"}, Owner: "s1"}
	rec.Sealed = &unit.Report{
		Schema: unit.ReportSchema, Name: "foo", Command: rec.Command, State: unit.StateSettled, Confirmed: true, Reason: ptr(unit.ReasonFailed), Exit: exited(3),
		Tree: unit.TreeFact{Empty: true}, StartedAt: &at, EndedAt: &at, DurationMS: ptr(int64(0)), Owner: "s1",
	}
	e, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	for _, c := range []struct {
		args   string
		status int
		says   string
	}{
		{"wait foo", 3, ""}, {"wait --for exit foo.service", 3, ""}, {"wait foo foo.service", 3, ""}, {"status foo", 0, "settled, failed (3)"},
		{"verify foo", 0, "foo: confirmed: failed (3)"}, {"stop foo", 0, "foo: had already ended, failed (3)"}, {"stop -q foo", 0, ""},
		{"list --all", 0, "failed (3)"}, {"list", 0, "NAME"}, {"list --all --owner s2", 0, "NAME"},
		{"verify --json foo", 0, `"confirmed":true`}, {"status --json foo", 0, `"state":"settled"`},
	} {
		status, out, errs := do(t, strings.Fields(c.args)...)
		if status != c.status || errs != "" || !strings.Contains(out, c.says) {
			t.Errorf("%s: status %d, %q, %q; want %d and %q", c.args, status, out, errs, c.status, c.says)
		}
		if shown := strings.Contains(out, "failed (3)"); c.says == "NAME" && shown {
			t.Errorf("%s: %q", c.args, out)
		}
	}
	for _, args := range []string{"kill foo", "pause foo", "resume foo"} {
		if status, _, errs := do(t, strings.Fields(args)...); status != exitError || !strings.Contains(errs, "it has ended") {
			t.Errorf("%s: %d, %q", args, status, errs)
		}
	}
}

// sealed makes a settled job, whose record change may change.
func sealed(t *testing.T, state, name string, change func(*unit.Record)) {
	t.Helper()
	s, err := store.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	machine, _ := os.ReadFile("/etc/machine-id")
	rec := &unit.Record{Schema: unit.RecordSchema, Name: name, Command: []string{"false"}}
	rec.Identity.Host, rec.Identity.UID = strings.TrimSpace(string(machine)), os.Geteuid()
	rec.Sealed = &unit.Report{Schema: unit.ReportSchema, Name: unit.Text(name), State: unit.StateSettled, Confirmed: true, Reason: ptr(unit.ReasonFailed), Exit: exited(3)}
	if change != nil {
		change(rec)
	}
	e, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}

// What is wrong in the directory of jobs is said in one line each, and hides
// no job.
func TestBadRecordHidesNoOther(t *testing.T) {
	state := alone(t)
	sealed(t, state, "good", nil)
	sealed(t, state, "elsewhere", func(r *unit.Record) { r.Identity.Host = "another" })
	sealed(t, state, "running", func(r *unit.Record) { r.Identity.Host, r.Sealed = "another", nil })
	jobs := filepath.Join(state, "jobs")
	for name, err := range map[string]error{
		"bad":     os.Mkdir(filepath.Join(jobs, "bad"), 0o700),
		"content": os.WriteFile(filepath.Join(jobs, "bad", "job.json"), []byte("{"), 0o600),
		"renamed": os.Rename(filepath.Join(jobs, "good"), filepath.Join(jobs, "renamed")),
		"stray":   os.WriteFile(filepath.Join(jobs, "stray"), nil, 0o600),
		"link":    os.Symlink("/etc", filepath.Join(jobs, "link")),
	} {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	sealed(t, state, "good", nil)
	says := map[string]string{
		"bad": "cannot believe the record", "renamed": `speaks of job "good"`, "stray": "it is not a directory", "link": "it is not a directory",
	}
	status, out, errs := do(t, "list", "--all")
	if status != 0 || strings.Count(errs, "\n") != len(says) || strings.Count(out, "foreign") != 2 || strings.Count(out, "\n") != 4 {
		t.Errorf("list: %d\n%s%s", status, out, errs)
	}
	status, out, errs = do(t, "list", "--all", "--json")
	var rows []struct {
		Name, Host string
		Error      *errorBody
	}
	if err := json.Unmarshal([]byte(out), &rows); err != nil || status != 0 || errs != "" || len(rows) != 3+len(says) {
		t.Errorf("list --json: %d, %v, %q\n%s", status, err, errs, out)
	}
	for _, r := range rows {
		if want := says[r.Name]; (r.Error != nil) != (want != "") || r.Error != nil && (!strings.Contains(r.Error.Message, want) || len(r.Error.Hints) != 1) {
			t.Errorf("list --json: %+v, want %q", r, want)
		}
	}
	for name, want := range says {
		if status, _, errs := do(t, "status", name); status != exitError || !strings.Contains(errs, want) || strings.Contains(errs, "--state-dir") {
			t.Errorf("status %s: %d, %q", name, status, errs)
		}
	}
	for _, name := range []string{"elsewhere", "running"} {
		if status, out, _ := do(t, "status", name); status != 0 || !strings.Contains(out, "the record is of host another, this is ") {
			t.Errorf("status %s: %d, %q", name, status, out)
		}
	}
	for _, verb := range []string{"kill", "stop", "pause"} {
		if status, _, errs := do(t, verb, "running"); status != exitError || !strings.Contains(errs, "its identity changed: the record is of host another") {
			t.Errorf("%s: %d, %q", verb, status, errs)
		}
	}
}
