package launch

import (
	"path/filepath"
	"testing"

	"github.com/unitward/unitward/unit"
)

// The record of a service that cannot go on without its call does not say that it
// does.
func TestRefusedToOutlive(t *testing.T) {
	l, err := New(Config{StateDir: filepath.Join(t.TempDir(), "state"), Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	entry, err := l.store.Reserve("a")
	if err != nil {
		t.Fatal(err)
	}
	defer entry.Close()
	j := newJob(l, &unit.Record{Schema: unit.RecordSchema, Name: "a", Command: []string{"true"}, Lifetime: unit.LifetimeCall}, entry)
	if err := entry.Put(j.rec()); err != nil {
		t.Fatal(err)
	}
	j.held = &service{j: j, shared: true}
	if err := j.outlive(); err == nil {
		t.Error("it goes on")
	}
	if rec, err := entry.Record(); err != nil || rec.Lifetime != unit.LifetimeCall || j.rec().Lifetime != unit.LifetimeCall {
		t.Errorf("it has lifetime %s: %v", j.rec().Lifetime, err)
	}
}
