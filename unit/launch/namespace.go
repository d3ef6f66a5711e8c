package launch

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/fallback/cgroup"
	"github.com/unitward/unitward/unit"
	"github.com/unitward/unitward/verify"
)

// pidNamespace is the inode of this process's pid namespace; 0 where it cannot be read.
func pidNamespace() uint64 {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

// pidsHold is true where the pids of a record mean here what they meant for who wrote
// it. Where they do not, as in a sandbox that shares the records, a process that is
// not found need not have ended: nobody's job is stopped or given up for it.
func pidsHold(rec *unit.Record) bool {
	return rec.Identity.PIDNamespace == 0 || rec.Identity.PIDNamespace == pidNamespace()
}

// readCgroup looks into the recorded cgroup of a record. One that is not there has
// not gone for who may see another hierarchy, or another root of it: a container has
// a cgroup namespace along with its pid namespace (cgroup_namespaces(7)).
func readCgroup(g *cgroup.Group, rec *unit.Record) verify.Cgroup {
	c := g.Read()
	if c.State == verify.CgroupGone && !pidsHold(rec) {
		c.State, c.Err = verify.CgroupUnavailable, fmt.Sprintf("it is not seen in pid namespace %d, and was made in %d", pidNamespace(), rec.Identity.PIDNamespace)
	}
	return c
}
