package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/store"
)

func TestUnknownJob(t *testing.T) {
	state := alone(t)
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
	if exists(state) {
		t.Error("verbs that only look have made the state directory")
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

// A job that the look of the list proves to have ended is no orphan.
func TestOrphansLive(t *testing.T) {
	state := alone(t)
	s, err := store.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	line := func(file string) string {
		b, _ := os.ReadFile(file)
		return strings.ReplaceAll(strings.TrimSpace(string(b)), "-", "")
	}
	rec := &unit.Record{Schema: unit.RecordSchema, Name: "foo", Command: []string{"true"}, Lifetime: unit.LifetimeDetached}
	rec.Identity = unit.Identity{Host: line("/etc/machine-id"), Boot: line("/proc/sys/kernel/random/boot_id"), UID: os.Geteuid(), Isolation: "group", Nonce: "1"}
	rec.Launcher = unit.Process{PID: os.Getpid(), StartTime: 1} // gone, and its number is another's
	e, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	if status, out, errs := do(t, "list", "--orphans", "--json"); status != 0 || out != "[]\n" {
		t.Errorf("%d, %q, %q", status, out, errs)
	}
	if _, out, _ := do(t, "list", "--all", "--json"); !strings.Contains(out, `"reason":"start-failed"`) {
		t.Errorf("the look has proven nothing: %s", out)
	}
}

// A job of which nothing ran has returned nothing, and that is said.
func TestWaitForFailedStart(t *testing.T) {
	state := alone(t)
	never := func(r *unit.Record) {
		r.Sealed.Exit, r.Sealed.Reason = unit.ExitFact{}, ptr(unit.ReasonStartFailed)
	}
	sealed(t, state, "never", never)
	sealed(t, state, "foo", nil)
	const want = "unitward: cannot tell what job never returned: "
	for _, c := range []struct {
		args   string
		status int
	}{{"wait never", exitError}, {"wait -q never", exitError}, {"wait --for exit never", exitError}, {"wait never foo", exitError}, {"wait foo", 3}} {
		status, out, errs := do(t, strings.Fields(c.args)...)
		if said := strings.Contains(errs, want); status != c.status || out != "" || said != strings.Contains(c.args, "never") {
			t.Errorf("%s: %d, %q, %q", c.args, status, out, errs)
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
