package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

func TestKey(t *testing.T) {
	s := fresh(t)
	for _, want := range []string{"", "first", "second-and-longer", "third"} {
		k, err := s.Key("build/x")
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Job(); got != want && want != "" {
			t.Errorf("the job is %q, want %q", got, want)
		}
		next := map[string]string{"": "first", "first": "second-and-longer", "second-and-longer": "third", "third": "x"}[want]
		if err := k.Put(next); err != nil {
			t.Fatal(err)
		}
		if got := k.Job(); got != next {
			t.Errorf("the job is %q, want %q", got, next)
		}
		k.Close()
	}
	other, err := s.Key("build/y")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := other.Job(); got != "" {
		t.Errorf("another key's job is %q", got)
	}
	if names, err := s.Names(); err != nil || len(names) != 0 {
		t.Errorf("keys are taken for jobs: %v, %v", names, err)
	}
}

func TestKeyIsHeldByOne(t *testing.T) {
	s := fresh(t)
	first, err := s.Key("k")
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan *Key)
	go func() {
		second, err := s.Key("k")
		if err != nil {
			t.Error(err)
		}
		taken <- second
	}()
	if err := first.Put("job"); err != nil {
		t.Fatal(err)
	}
	first.Close()
	second := <-taken
	defer second.Close()
	if got := second.Job(); got != "job" {
		t.Errorf("the second sees %q", got)
	}
}

func TestBadKeys(t *testing.T) {
	s := fresh(t)
	for _, key := range []string{"", strings.Repeat("k", maxKey+1)} {
		if _, err := s.Key(key); err == nil {
			t.Errorf("%.10q was taken", key)
		}
	}
	k, err := s.Key("torn")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.f.WriteString(`{"key":"torn","jo`); err != nil {
		t.Fatal(err)
	}
	if got := k.Job(); got != "" {
		t.Errorf("a torn file names %q", got)
	}
	k.Close()
	dir := filepath.Join(s.Dir(), keysDir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var de *DirError
	if _, err := s.Key("torn"); !errors.As(err, &de) {
		t.Errorf("a directory that others can reach: %v", err)
	}
}

// The file of a key whose job is gone goes too, but not from under whoever holds
// the key, and not while a start may be about to make the job.
func TestKeysAreTidied(t *testing.T) {
	s := fresh(t)
	put := func(key, job string) *Key {
		t.Helper()
		k, err := s.Key(key)
		if err != nil {
			t.Fatal(err)
		}
		if job != "" {
			if err := k.Put(job); err != nil {
				t.Fatal(err)
			}
		}
		return k
	}
	e, err := s.Reserve("there")
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	put("of a job", "there").Close()
	put("of none", "gone").Close()
	put("started nothing", "").Close()
	held := put("held", "gone")
	count := func() int {
		entries, err := os.ReadDir(filepath.Join(s.dir, keysDir))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	tidy := func(at time.Time) {
		if _, err := s.Tidy(at, func(*unit.Record) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	if tidy(time.Now()); count() != 4 {
		t.Errorf("%d files, want all 4: they are new", count())
	}
	later := time.Now().Add(2 * tidyEvery)
	if tidy(later); count() != 2 {
		t.Errorf("%d files, want 2: of the job, and the held one", count())
	}
	waits := make(chan *Key)
	go func() {
		k, err := s.Key("held")
		if err != nil {
			t.Error(err)
		}
		waits <- k
	}()
	// Somebody tidied between its open and its lock: it must not hold what has
	// no name.
	for entries, _ := os.ReadDir(filepath.Join(s.dir, keysDir)); len(entries) > 1; entries, _ = os.ReadDir(filepath.Join(s.dir, keysDir)) {
		for _, e := range entries {
			os.Remove(filepath.Join(s.dir, keysDir, e.Name()))
		}
	}
	held.Close()
	second := <-waits
	defer second.Close()
	if err := second.Put("job"); err != nil {
		t.Fatal(err)
	}
	if got, want := second.Job(), "job"; got != want || count() == 0 {
		t.Errorf("the key that is held has no file: job %q, %d files", got, count())
	}
}
