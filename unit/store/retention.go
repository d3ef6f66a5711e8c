package store

import (
	"sort"
	"time"

	"github.com/unitward/unitward/unit"
)

// Retention of settled records. Those of jobs that are not settled are kept
// for as long as it takes.
const (
	// MaxAge is how long a settled record is kept.
	MaxAge = 7 * 24 * time.Hour
	// MaxSettled is how many are kept; the newest stay.
	MaxSettled = 1000
	// tidyEvery is how often the whole store is looked through for them.
	tidyEvery = time.Hour
)

// Due reports whether the store was not tidied for a while, and takes it upon
// the caller to do so now.
func (s *Store) Due(now time.Time) bool {
	if s.ready(false) != nil {
		return false // nothing is in it
	}
	info, err := s.root.Lstat(tidyFile)
	if err == nil && now.Sub(info.ModTime()) < tidyEvery && !info.ModTime().After(now) {
		return false
	}
	if err == nil {
		return s.root.Chtimes(tidyFile, now, now) == nil
	}
	f, err := s.root.Create(tidyFile)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// tidyFile is dated when the store was tidied. No job has such a name.
const tidyFile = ".tidied"

// Tidy removes settled records that are older than MaxAge or more than
// MaxSettled, oldest first, of those that mine is true for, and the files of keys
// that lead nowhere. It returns how many records, and the first error, which ends
// nothing.
func (s *Store) Tidy(now time.Time, mine func(*unit.Record) bool) (removed int, err error) {
	names, err := s.Names()
	if err != nil {
		return 0, err
	}
	type settled struct {
		name string
		at   time.Time
	}
	var all []settled
	for _, name := range names {
		e, rec, lerr := s.Load(name)
		if lerr != nil {
			continue // not ours to judge
		}
		if rec.Sealed != nil && mine(rec) {
			at := rec.CreatedAt
			if rec.Sealed.EndedAt != nil {
				at = *rec.Sealed.EndedAt
			}
			all = append(all, settled{name, at})
		}
		e.Close()
	}
	// The generic sort would be code of its own for this type: 25 KB.
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return a.at.After(b.at) || a.at.Equal(b.at) && a.name < b.name
	})
	for i, old := range all {
		if i < MaxSettled && now.Sub(old.at) <= MaxAge {
			continue
		}
		ok, rerr := s.removeSettled(old.name)
		if ok {
			removed++
		}
		if err == nil {
			err = rerr
		}
	}
	s.tidyKeys(now)
	return removed, err
}

// removeSettled removes a job if it is settled still: its name may be another
// job's by now.
func (s *Store) removeSettled(name string) (bool, error) {
	e, rec, err := s.Load(name)
	if err != nil {
		return false, nil // gone, or not ours to judge
	}
	defer e.Close()
	if rec.Sealed == nil {
		return false, nil
	}
	return true, e.Remove()
}
