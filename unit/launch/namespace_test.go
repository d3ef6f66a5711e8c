package launch

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

// What is not found by the pids of another namespace has not ended for that, and a
// cgroup that is not seen there has not gone.
func TestPidsOfAnotherNamespace(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	dead := unit.Process{PID: cmd.Process.Pid, StartTime: 1}
	s, err := store.Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	l := &Launcher{}
	for _, c := range []struct {
		about string
		ns    uint64
		known bool
	}{
		{"this", pidNamespace(), true},
		{"not recorded", 0, true},
		{"another", pidNamespace() + 1, false},
	} {
		record := func(isolation string) *unit.Record {
			return &unit.Record{Name: "j", Launcher: dead, OwnerProcess: dead, Lifetime: unit.LifetimeCall, Identity: unit.Identity{Isolation: isolation, PIDNamespace: c.ns, Cgroup: "/unitward-test-nowhere/j", CgroupInode: 4711}}
		}
		rec := record(verify.IsolationService)
		if got := Orphan(rec); got != c.known {
			t.Errorf("%s: its launcher has ended: %v", c.about, got)
		}
		rec.Lifetime = unit.LifetimeOwner
		if got := Orphan(rec); got != c.known {
			t.Errorf("%s: its owner has ended: %v", c.about, got)
		}
		if got := (&service{j: newJob(l, rec, nil)}).abandoned(); got != c.known {
			t.Errorf("%s: its start is abandoned: %v", c.about, got)
		}
		if h := l.hierarchy(); h != nil {
			if got := readCgroup(h.Recorded(rec.Identity.Cgroup, rec.Identity.CgroupInode), rec).State == verify.CgroupGone; got != c.known {
				t.Errorf("%s: its cgroup is gone: %v", c.about, got)
			}
		}
		entry, err := s.Create(record(verify.IsolationGroup))
		if err != nil {
			t.Fatal(err)
		}
		j := newJob(l, record(verify.IsolationGroup), entry)
		k := &kept{j: j}
		if err := k.adopt(t.Context()); err != nil || (j.rec().Sealed != nil) != c.known {
			t.Errorf("%s: its start is settled: %v, %v", c.about, j.rec().Sealed, err)
		}
		if err := entry.Remove(); err != nil {
			t.Error(err)
		}
		entry.Close()
	}
}
