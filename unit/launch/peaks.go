package launch

import (
	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// ownPeaks is the most that the cgroup of this process has had: of its unit, as
// who is in it can still tell at the end.
func ownPeaks() unit.Usage {
	var used unit.Usage
	h, err := cgroup.FindHierarchy()
	if err != nil {
		return used
	}
	g, err := h.Lookup(ownCgroup())
	if err != nil {
		return used
	}
	used.MemoryPeak, used.TasksPeak = g.Peaks()
	return used
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
