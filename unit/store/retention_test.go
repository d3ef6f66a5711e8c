package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/unitward/unitward/unit"
)

// settledJob makes the record of a job that ended at a time; the zero time is
// one that is not settled.
func settledJob(t *testing.T, s *Store, name string, ended time.Time) {
	t.Helper()
	rec := &unit.Record{Schema: unit.RecordSchema, Name: name, Command: []string{"true"}}
	if !ended.IsZero() {
		rec.Sealed = &unit.Report{Schema: unit.ReportSchema, Name: unit.Text(name), State: unit.StateSettled, EndedAt: &ended}
	}
	e, err := s.Create(rec)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
}

func all(*unit.Record) bool { return true }

func TestTidyLeavesOthers(t *testing.T) {
	s := fresh(t)
	now := time.Now()
	settledJob(t, s, "old", now.Add(-2*MaxAge))
	if n, err := s.Tidy(now, func(*unit.Record) bool { return false }); n != 0 || err != nil {
		t.Errorf("%d were removed, %v", n, err)
	}
}

func TestTidyByAge(t *testing.T) {
	s := fresh(t)
	now := time.Now()
	settledJob(t, s, "old", now.Add(-MaxAge-time.Second))
	settledJob(t, s, "young", now.Add(-MaxAge+time.Second))
	settledJob(t, s, "live", time.Time{})
	if n, err := s.Tidy(now, all); n != 1 || err != nil {
		t.Errorf("%d were removed, %v", n, err)
	}
	if names, err := s.Names(); err != nil || !slices.Equal(names, []string{"live", "young"}) {
		t.Errorf("left are %v, %v", names, err)
	}
}

func TestTidyByNumber(t *testing.T) {
	s := fresh(t)
	now := time.Now()
	for i := range MaxSettled + 3 {
		settledJob(t, s, fmt.Sprintf("j%04d", i), now.Add(-time.Duration(i)*time.Second))
	}
	settledJob(t, s, "live", time.Time{})
	if n, err := s.Tidy(now, all); n != 3 || err != nil {
		t.Errorf("%d were removed, %v", n, err)
	}
	names, err := s.Names()
	if err != nil || len(names) != MaxSettled+1 || names[len(names)-2] != fmt.Sprintf("j%04d", MaxSettled-1) {
		t.Errorf("%d are left, %v", len(names), err)
	}
}

func TestDue(t *testing.T) {
	s := fresh(t)
	now := time.Now()
	for i, c := range []struct {
		at   time.Time
		want bool
	}{{now, true}, {now.Add(time.Minute), false}, {now.Add(tidyEvery + time.Minute), true}, {now, true}} {
		if got := s.Due(c.at); got != c.want {
			t.Errorf("%d: due is %v", i, got)
		}
	}
	if names, err := s.Names(); err != nil || len(names) != 0 {
		t.Errorf("it is taken for a job: %v, %v", names, err)
	}
}
