package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
