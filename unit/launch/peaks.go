package launch

import (
	"strings"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit/store"
	"github.com/unitward/unitward/verify"
)

// ownUnit is what this process sees of the unit that it runs in.
func ownUnit() store.Seen {
	h, err := cgroup.FindHierarchy()
	if err != nil {
		return store.Seen{}
	}
	// Where a unit's cgroup is delegated, what the manager itself runs for it is in
	// a cgroup below (systemd 247, exec_invoke()).
	g, err := h.Lookup(strings.TrimSuffix(ownCgroup(), "/.control"))
	if err != nil {
		return store.Seen{}
	}
	seen := store.Seen{Cgroup: g.Path, CgroupInode: g.Inode}
	seen.Used.MemoryPeak, seen.Used.TasksPeak = g.Peaks()
	return seen
}

// addPeaks completes what is known of a job's use by its recorder's word, and by
// its cgroup while that is there.
func (lk *look) addPeaks(g *cgroup.Group) {
	if r := lk.o.Recorded; r != nil && r.InvocationID == lk.o.InvocationID {
		lk.addPeak(r.MemoryPeak, r.TasksPeak)
	}
	if c := lk.o.Cgroup.State; c == verify.CgroupPopulated || c == verify.CgroupEmpty {
		lk.addPeak(g.Peaks())
	}
}

func (lk *look) addPeak(memory, tasks *uint64) {
	if lk.usage.MemoryPeak == nil {
		lk.usage.MemoryPeak = memory
	}
	if lk.usage.TasksPeak == nil {
		lk.usage.TasksPeak = tasks
	}
}
