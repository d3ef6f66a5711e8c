package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func fresh(t testing.TB) *Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "state"))
	if err := s.Make(); err != nil {
		t.Fatal(err)
	}
	return s
}

// Who only looks makes no directory, and sees one that another makes later.
func TestDirectoryIsMadeForJobs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	s := open(t, dir)
	if names, err := s.Names(); err != nil || len(names) != 0 {
		t.Errorf("Names of nothing: %v, %v", names, err)
	}
	if _, _, err := s.Load("foo"); !isNotFound(err) {
		t.Errorf("Load of nothing: %v", err)
	}
	if removed, err := s.Tidy(time.Now(), func(*unit.Record) bool { return true }); removed != 0 || err != nil || s.Due(time.Now()) {
		t.Errorf("Tidy of nothing: %d, %v", removed, err)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a look has made it: %v", err)
	}
	create(t, open(t, dir), "foo")
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"foo"}) {
		t.Errorf("Names of what another made: %v, %v", names, err)
	}
	load(t, s, "foo")
	k, err := open(t, filepath.Join(t.TempDir(), "state")).Key("key")
	if err != nil {
		t.Fatal(err)
	}
	k.Close()
}

// A directory that another makes later is judged as one that is there.
func TestLaterDirectoryIsJudged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := open(t, dir)
	if err := errors.Join(os.MkdirAll(dir+"/jobs", 0o700), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Names()
	_, _, lerr := s.Load("foo")
	_, rerr := s.Reserve("foo")
	for _, err := range []error{err, lerr, rerr} {
		var bad *DirError
		if !errors.As(err, &bad) {
			t.Errorf("a directory that others can read is used: %v", err)
		}
	}
}

func newRecord(name string) *unit.Record {
	return &unit.Record{Schema: unit.RecordSchema, Name: name, Command: []string{"true"}}
}

func create(t testing.TB, s *Store, name string) *Entry {
	t.Helper()
	e, err := s.Create(newRecord(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func seal(t testing.TB, e *Entry) {
	t.Helper()
	if _, err := e.Update(false, func(r *unit.Record) { r.Sealed = &unit.Report{Name: unit.Text(r.Name)} }); err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, s *Store, name string) *unit.Record {
	t.Helper()
	e, rec, err := s.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	return rec
}

func TestRoundTrip(t *testing.T) {
	s := fresh(t)
	if _, _, err := s.Load("foo"); !isNotFound(err) {
		t.Fatalf("Load of nothing: %v", err)
	}
	e := create(t, s, "foo")
	if rec := load(t, s, "foo"); rec.Name != "foo" || rec.Command[0] != "true" {
		t.Errorf("the record is %+v", rec)
	}
	for _, durable := range []bool{false, true} {
		rec, err := e.Update(durable, func(r *unit.Record) { r.OwnerProcess.PID++ })
		if err != nil || rec.OwnerProcess.PID != load(t, s, "foo").OwnerProcess.PID {
			t.Fatalf("Update: %v, %v", rec, err)
		}
	}
	if rec := load(t, s, "foo"); rec.OwnerProcess.PID != 2 {
		t.Errorf("two updates made %d", rec.OwnerProcess.PID)
	}
	for path, want := range map[string]fs.FileMode{"": 0o700, "jobs": 0o700, "jobs/foo": 0o700, "jobs/foo/job.json": 0o600} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(s.Dir()), path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: %v, %v; want %o", path, info, err, want)
		}
	}
	if err := e.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(s.Dir()); len(left) != 0 {
		t.Errorf("Remove left %v", left)
	}
	if _, err := e.Record(); !isNotFound(err) {
		t.Errorf("Record after Remove: %v", err)
	}
	if _, err := e.Update(false, func(*unit.Record) {}); err == nil {
		t.Error("Update after Remove succeeds")
	}
	if err := e.Remove(); err != nil {
		t.Errorf("a second Remove: %v", err)
	}
}

func TestNameIsFreeOnlyWhenSealed(t *testing.T) {
	s := fresh(t)
	old := create(t, s, "foo")
	var exists *unit.ExistsError
	if _, err := s.Create(newRecord("foo")); !errors.As(err, &exists) || exists.Name != "foo" {
		t.Fatalf("Create over a live job: %v", err)
	}
	seal(t, old)
	next := create(t, s, "foo")
	if load(t, s, "foo").Sealed != nil {
		t.Error("the name still names the old job")
	}
	// Whoever still has the old one at hand must not touch the new one.
	if err := old.Remove(); err != nil {
		t.Errorf("Remove of what is gone: %v", err)
	}
	if _, err := next.Update(false, func(*unit.Record) {}); err != nil || load(t, s, "foo").Sealed != nil {
		t.Errorf("the old job's Remove took the new one: %v", err)
	}
}

// One of many that want a sealed job's name gets it, and keeps it.
func TestOneWinnerOfAName(t *testing.T) {
	for range 50 {
		s := fresh(t)
		seal(t, create(t, s, "foo"))
		const racers = 8
		var wg sync.WaitGroup
		entries := make([]*Entry, racers)
		for i := range racers {
			wg.Go(func() {
				rec := newRecord("foo")
				rec.OwnerProcess.PID = i + 1
				e, err := s.Create(rec)
				var exists *unit.ExistsError
				if err != nil && !errors.As(err, &exists) {
					t.Errorf("Create: %v", err)
				}
				entries[i] = e
			})
		}
		wg.Wait()
		winners := 0
		for i, e := range entries {
			if e == nil {
				continue
			}
			winners++
			if rec := load(t, s, "foo"); rec.OwnerProcess.PID != i+1 {
				t.Errorf("%d won and %d is on record", i+1, rec.OwnerProcess.PID)
			}
			e.Close()
		}
		if winners != 1 {
			t.Fatalf("%d starts got the name", winners)
		}
	}
}

func TestNames(t *testing.T) {
	s := fresh(t)
	for _, n := range []string{"b", "a", "c"} {
		create(t, s, n)
	}
	old := time.Now().Add(-2 * time.Minute)
	dir := func(name string, mod time.Time, files ...string) {
		t.Helper()
		d := filepath.Join(s.Dir(), name)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(d, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(d, mod, mod); err != nil {
			t.Fatal(err)
		}
	}
	dir("young", time.Now())
	dir("old", old)
	dir("old-begun", old, ".job.json-AAAA")
	dir("old-kept", old, "kept")
	dir("old-full", old, "exit.json")
	dir("young-begun", time.Now(), ".job.json-AAAA")
	dir(".trash-XYZ", time.Now(), "job.json")
	if err := os.Chtimes(filepath.Join(s.Dir(), "a"), old, old); err != nil {
		t.Fatal(err)
	}
	got, err := s.Names()
	if err != nil || !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("Names = %q, %v", got, err)
	}
	var left []string
	entries, err := os.ReadDir(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"a", "b", "c", "old-full", "young", "young-begun"}; !slices.Equal(left, want) {
		t.Errorf("Names left %q, want %q", left, want)
	}
}

// A start that died before its first record keeps no name, and one that lives does.
func TestAbandonedNameIsFree(t *testing.T) {
	s := fresh(t)
	for _, files := range [][]string{nil, {".job.json-AAAA"}, {"kept"}, {"kept", ".job.json-B"}, {"kept", "stdout", "stderr.0000000000000000", "terminal", "exit.space"}} {
		e, err := s.Reserve("foo")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if err := os.WriteFile(filepath.Join(e.Dir(), name), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var exists *unit.ExistsError
		if _, err := s.Create(newRecord("foo")); !errors.As(err, &exists) {
			t.Fatalf("a start that is under way, with %q: %v", files, err)
		}
		if names, err := s.Names(); err != nil || len(names) != 0 {
			t.Fatalf("Names are %q, %v", names, err)
		}
		if _, err := os.Stat(e.Dir()); err != nil {
			t.Fatalf("a start that is under way lost its directory: %v", err)
		}
		e.Close() // as by its death
		if err := create(t, s, "foo").Remove(); err != nil {
			t.Fatalf("with %q: %v", files, err)
		}
	}
}

// A start that failed leaves the next isolation a directory as it found it.
func TestUndo(t *testing.T) {
	e := create(t, fresh(t), "foo")
	for _, name := range []string{"kept", "stdout", "stderr.0000000000000000", "terminal", "exit.space", ".job.json-A", "mine", "exit.json"} {
		if err := os.WriteFile(filepath.Join(e.Dir(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e.Undo()
	entries, err := os.ReadDir(e.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, f := range entries {
		left = append(left, f.Name())
	}
	if want := []string{"exit.json", "job.json", "mine"}; !slices.Equal(left, want) {
		t.Errorf("it leaves %q, want %q", left, want)
	}
}

// What no start made stays, and its name is taken.
func TestStrangersStay(t *testing.T) {
	s := fresh(t)
	own := filepath.Join(s.Dir(), "foo", "mine")
	if err := os.Mkdir(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var exists *unit.ExistsError
	if _, err := s.Reserve("foo"); !errors.As(err, &exists) {
		t.Errorf("Reserve: %v", err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Error(err)
	}
}

// Whoever looks while a name is taken takes it from nobody.
func TestReserveWhileOthersLook(t *testing.T) {
	s := fresh(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := s.Names(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for i := range 300 {
		e, err := s.Create(newRecord("foo"))
		if err != nil {
			t.Errorf("start %d: %v", i, err)
			break
		}
		if err := e.Remove(); err != nil {
			t.Error(err)
		}
		e.Close()
	}
	close(stop)
	wg.Wait()
}

func TestDefaultDir(t *testing.T) {
	env := func(kv ...string) func(string) string {
		return func(name string) string {
			for _, e := range kv {
				if v, ok := strings.CutPrefix(e, name+"="); ok {
					return v
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		env  func(string) string
		uid  int
		want string
	}{
		{env("UNITWARD_STATE_DIR=/s", "XDG_STATE_HOME=/x", "HOME=/h"), 0, "/s"},
		{env("UNITWARD_STATE_DIR=/s", "HOME=/h"), 1000, "/s"},
		{env("XDG_STATE_HOME=/x", "HOME=/root"), 0, "/var/lib/unitward"},
		{env("XDG_STATE_HOME=/x", "HOME=/h"), 1000, "/x/unitward"},
		{env("XDG_STATE_HOME=x", "HOME=/h"), 1000, "/h/.local/state/unitward"},
		{env("HOME=h"), 1000, ""},
		{env(), 1000, ""},
	} {
		if got := DefaultDir(c.env, c.uid); got != c.want {
			t.Errorf("DefaultDir = %q, want %q", got, c.want)
		}
	}
}
