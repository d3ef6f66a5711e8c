package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

// ended is a process table in which nobody but process 1 is left.
func ended(rec *unit.Record) bool { return rec.OwnerProcess.PID != 1 }

// The recorder sees whether the owner of its job is there.
func TestRecordExitKnowsTheOwner(t *testing.T) {
	for _, c := range []struct {
		lifetime unit.Lifetime
		owner    int
		want     bool
	}{
		{unit.LifetimeOwner, 7, true}, {unit.LifetimeOwner, 1, false}, {unit.LifetimeDetached, 7, false},
	} {
		s := fresh(t)
		e := create(t, s, "foo")
		if _, err := e.Update(false, func(r *unit.Record) { r.Lifetime, r.OwnerProcess.PID = c.lifetime, c.owner }); err != nil {
			t.Fatal(err)
		}
		if err := RecordExit(e.Dir(), func(string) string { return "x" }, ended, Seen{}, time.Now()); err != nil {
			t.Fatal(err)
		}
		if x, err := e.Recorded(); err != nil || x.OwnerGone != c.want {
			t.Errorf("%+v: %+v, %v", c, x, err)
		}
	}
}

func TestRecordExit(t *testing.T) {
	s := fresh(t)
	e := create(t, s, "foo")
	if x, err := e.Recorded(); x != nil || err != nil {
		t.Fatalf("before it is written: %v, %v", x, err)
	}
	env := map[string]string{"INVOCATION_ID": "abc", "EXIT_CODE": "killed", "EXIT_STATUS": "TERM", "SERVICE_RESULT": "success"}
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC)
	memory, tasks := uint64(1<<40), uint64(7)
	if err := RecordExit(e.Dir(), func(k string) string { return env[k] }, ended, Seen{Used: unit.Usage{MemoryPeak: &memory, TasksPeak: &tasks}, Cgroup: "/a.slice/b.service", CgroupInode: 7}, at); err != nil {
		t.Fatal(err)
	}
	x, err := e.Recorded()
	if err != nil || x.MemoryPeak == nil || *x.MemoryPeak != memory || x.TasksPeak == nil || *x.TasksPeak != tasks || x.InvocationID != "abc" || x.ExitCode != "killed" || x.ExitStatus != "TERM" || x.ServiceResult != "success" || !x.At.Equal(at) {
		t.Errorf("Recorded: %+v, %v", x, err)
	}
	if info, err := os.Stat(filepath.Join(e.Dir(), exitFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	// Who tended the job has said how it ended: that stands, but for another
	// start.
	env["EXIT_STATUS"] = "KILL"
	for invocation, want := range map[string]string{"abc": "TERM", "abd": "KILL"} {
		if err := e.RecordExit(func(k string) string { return map[string]string{"INVOCATION_ID": "abc", "EXIT_STATUS": "TERM"}[k] }, ended, Seen{}, at); err != nil {
			t.Fatal(err)
		}
		env["INVOCATION_ID"] = invocation
		if err := RecordExit(e.Dir(), func(k string) string { return env[k] }, ended, Seen{}, at); err != nil {
			t.Fatal(err)
		}
		if x, err := e.Recorded(); err != nil || x.ExitStatus != want {
			t.Errorf("%s: %+v, %v; want %s", invocation, x, err, want)
		}
	}
	if err := RecordExit(e.Dir()+"-gone", os.Getenv, ended, Seen{}, at); err == nil {
		t.Error("RecordExit of a job that is gone")
	}
	if _, err := os.Stat(e.Dir() + "-gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("RecordExit made a job")
	}
	for _, content := range []string{"", "{", "null", `{"schema":"unitward.exit/2"}`, `{"schema":"unitward.exit/1","at":7}`, strings.Repeat(" ", maxRecord+1)} {
		if err := os.WriteFile(filepath.Join(e.Dir(), exitFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var bad *CorruptError
		if x, err := e.Recorded(); x != nil || !errors.As(err, &bad) {
			t.Errorf("Recorded of %.30q: %v, %v", content, x, err)
		}
	}
}

// An exit that finds no room takes what was reserved for it, once.
func TestReservedExit(t *testing.T) {
	s := fresh(t)
	e := create(t, s, "foo")
	if err := e.ReserveExit(); err != nil {
		t.Fatal(err)
	}
	b, err := e.encode(exitFile, &exitRecord{Schema: exitSchema, InvocationID: "abc", ExitCode: "exited", ExitStatus: "6"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.fill(b); err != nil {
		t.Fatal(err)
	}
	if x, err := e.Recorded(); err != nil || x.InvocationID != "abc" || x.ExitStatus != "6" {
		t.Errorf("%+v, %v", x, err)
	}
	if err := e.fill(b); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("once more: %v", err)
	}
	if err := e.fill(make([]byte, keptSpace+1)); !full(err) {
		t.Errorf("more than was reserved: %v", err)
	}
	// What was not needed is given back.
	if err := e.ReserveExit(); err != nil {
		t.Fatal(err)
	}
	if err := RecordExit(e.Dir(), func(string) string { return "x" }, ended, Seen{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(e.Dir(), exitSpaceFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it stays: %v", err)
	}
}
