package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/unitward/unitward/dbusclient"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

// What the manager signalled is the exit of the start that it names, where
// nothing better is there.
func TestTold(t *testing.T) {
	const id, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	at := time.Unix(7, 0)
	end := func(id string, code, status int32) *dbusclient.End {
		return &dbusclient.End{InvocationID: id, Code: code, Status: status, At: at}
	}
	recorder := &verify.Recorded{InvocationID: id, ExitCode: "exited", ExitStatus: "1"}
	for _, c := range []struct {
		about        string
		recorded     string
		told         *dbusclient.End
		unit         string
		recorder     *verify.Recorded
		code, signal int
		known        bool
	}{
		{"nothing", id, nil, "", nil, 0, 0, false},
		{"an exit", id, end(id, 1, 9), "", nil, 9, 0, true},
		{"a signal", id, end(id, 2, 15), "", nil, 0, 15, true},
		{"a core dump", id, end(id, 3, 11), "", nil, 0, 11, true},
		{"of another start", id, end(other, 1, 9), "", nil, 0, 0, false},
		{"of a start that was not recorded", "", end("", 1, 9), "", nil, 0, 0, false},
		{"an impossible code", id, end(id, 4, 9), "", nil, 0, 0, false},
		{"the unit is still there to be read", id, end(id, 1, 9), id, nil, 0, 0, false},
		{"a recorder is there", id, end(id, 1, 9), "", recorder, 1, 0, true},
	} {
		u := &service{j: newJob(nil, &unit.Record{Identity: unit.Identity{InvocationID: c.recorded}}, nil)}
		lk := look{reading: dbusclient.Reading{Told: c.told}}
		lk.o = verify.Observation{
			Isolation: verify.IsolationService, InvocationID: c.recorded, At: at, Identity: verify.Identity{State: verify.IdentitySame}, Recorded: c.recorder,
		}
		lk.o.Unit = verify.Unit{Read: true, LoadState: "not-found", InvocationID: c.unit, TasksCurrent: verify.TasksUnset}
		u.told(&lk)
		got := verify.Judge(lk.o).Exit
		if got.Known != c.known || got.Code != c.code || got.Signal != c.signal {
			t.Errorf("%s: %+v", c.about, got)
		}
		if c.recorder != nil && !lk.o.Unit.MainExitAt.Equal(at) {
			t.Errorf("%s: it does not say when the main process ended: %v", c.about, lk.o.Unit.MainExitAt)
		}
	}
}

func TestAbsent(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&unit.NoManagerError{Tried: []string{"/a: no such file"}}, true},
		{&unit.NoManagerError{Tried: []string{"/a: no reply came in time"}, Silent: true}, false},
		{&unit.UnknownOutcomeError{Op: "open", Err: context.DeadlineExceeded}, false},
		{errors.New("odd"), false},
	} {
		if got := absent(c.err); got != c.want {
			t.Errorf("absent(%v) = %v", c.err, got)
		}
	}
}

// What the manager has once said of the unit's place is known also while it does not
// answer: on cgroup v1 nothing else is recorded of it.
func TestPlaced(t *testing.T) {
	const id, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	type reading = dbusclient.Reading
	read := func(invocation, load, at string) reading {
		r := reading{}
		r.Read, r.InvocationID, r.LoadState, r.ControlGroup = true, invocation, load, at
		return r
	}
	said, silent := read(id, "loaded", "/a.slice/x.service"), reading{}
	for _, c := range []struct {
		about    string
		inode    uint64
		readings []reading
		want     bool
		cgroup   string
	}{
		{"nobody has said", 0, []reading{silent}, false, "/to-be"},
		{"the manager says", 0, []reading{said}, true, "/a.slice/x.service"},
		{"the manager has said, and does not answer", 0, []reading{said, silent, silent}, true, "/a.slice/x.service"},
		{"the manager has said, and was restarted", 0, []reading{said, read("", "loaded", "")}, true, "/a.slice/x.service"},
		{"it is another start's", 0, []reading{read(other, "loaded", "/a.slice/x.service")}, false, "/to-be"},
		{"it has moved", 0, []reading{said, read(id, "loaded", "/b.slice/x.service")}, true, "/b.slice/x.service"},
		{"the manager knows of none", 0, []reading{read("", "not-found", "")}, true, "/to-be"},
		{"it was seen", 7, []reading{silent}, true, "/to-be"},
	} {
		// Of another machine no cgroup is looked up.
		u := &service{j: newJob(nil, &unit.Record{Identity: unit.Identity{InvocationID: id, Cgroup: "/to-be", CgroupInode: c.inode, Far: &unit.Far{}}}, nil)}
		got := false
		for _, r := range c.readings {
			got = u.placed(r)
		}
		if at := u.j.rec().Identity.Cgroup; got != c.want || at != c.cgroup {
			t.Errorf("%s: %v at %s, want %v at %s", c.about, got, at, c.want, c.cgroup)
		}
	}
}

// What the manager says of an exit is written down where a stop leaves something
// behind, and never over what a recorder or a reaper knows.
func TestKeepExit(t *testing.T) {
	const id, other = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	at := time.Unix(7, 0)
	said := func(invocation string, code, status int32) verify.Unit {
		return verify.Unit{Read: true, InvocationID: invocation, ExecMainCode: code, ExecMainStatus: status, Result: "timeout", MainExitAt: at}
	}
	for _, c := range []struct {
		about        string
		recorder     bool
		o            verify.Observation
		code, status string
	}{
		{"killed", true, verify.Observation{Unit: said(id, 2, 9)}, "killed", "KILL"},
		{"exited", true, verify.Observation{Unit: said(id, 1, 3)}, "exited", "3"},
		{"it goes on", true, verify.Observation{Unit: said(id, 0, 0)}, "", ""},
		{"of another start", true, verify.Observation{Unit: said(other, 2, 9)}, "", ""},
		{"nobody answers", true, verify.Observation{}, "", ""},
		{"no recorder", false, verify.Observation{Unit: said(id, 2, 9)}, "", ""},
		{"its recorder has written", true, verify.Observation{Unit: said(id, 2, 9), Recorded: &verify.Recorded{}}, "", ""},
		{"its reaper has written", true, verify.Observation{Unit: said(id, 2, 9), Kept: &verify.Kept{Exited: true}}, "", ""},
	} {
		dir := filepath.Join(t.TempDir(), "x")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		entry, err := store.OpenEntry(dir)
		if err != nil {
			t.Fatal(err)
		}
		j := newJob(nil, &unit.Record{Recorder: c.recorder, Identity: unit.Identity{InvocationID: id}}, entry)
		j.keepExit(look{o: c.o})
		r, err := entry.Recorded()
		entry.Close()
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.about, err)
		case c.code == "" && r != nil:
			t.Errorf("%s: %+v", c.about, r)
		case c.code != "" && (r == nil || r.InvocationID != id || r.ExitCode != c.code || r.ExitStatus != c.status || r.ServiceResult != "timeout" || !r.At.Equal(at)):
			t.Errorf("%s: %+v, want %s %s", c.about, r, c.code, c.status)
		}
	}
}

func TestExitWords(t *testing.T) {
	for status, want := range map[syscall.WaitStatus][2]string{
		0x0000: {"exited", "0"}, 0xff00: {"exited", "255"},
		0x000f: {"killed", "TERM"}, 0x0022: {"killed", "RTMIN"}, 0x0020: {"killed", "32"},
		0x008b: {"dumped", "SEGV"},
	} {
		if code, word := exitWords(childInfo(status)); code != want[0] || word != want[1] {
			t.Errorf("%#x: %s %s, want %v", uint32(status), code, word, want)
		}
	}
	if code, word := exitWords(0, 0); code != "" || word != "" {
		t.Errorf("no exit: %s %s", code, word)
	}
}
