package cgroup

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/unitward/unitward/unit"
)

// NoLimit is "infinity" in the syntax of systemd.
const NoLimit = math.MaxUint64

// Limits are the limits of a unit. Zero is one that was not asked for; NoLimit
// asks for none.
type Limits struct {
	// MemoryMax is in bytes.
	MemoryMax uint64
	// TasksMax is a number of threads.
	TasksMax uint64
	// CPUQuota is in microseconds of CPU time for each second: 1,000,000 is
	// one CPU (systemd's CPUQuotaPerSecUSec).
	CPUQuota uint64
}

// setting is one limit as the kernel has it.
type setting struct {
	name, controller, file string
	// value is what is written; empty when the limit was not asked for.
	value string
}

func (l Limits) settings() []setting {
	all := []setting{
		{"MemoryMax", "memory", "memory.max", number(l.MemoryMax)},
		{"TasksMax", "pids", "pids.max", number(l.TasksMax)},
		{"CPUQuota", "cpu", "cpu.max", quota(l.CPUQuota)},
	}
	return slices.DeleteFunc(all, func(s setting) bool { return s.value == "" })
}

func number(n uint64) string {
	switch n {
	case 0:
		return ""
	case NoLimit:
		return "max"
	}
	return strconv.FormatUint(n, 10)
}

// The kernel's smallest quota and largest period, and the period that is taken
// where the quota allows it, in microseconds (kernel/sched/core.c).
const (
	minQuota   = 1_000
	maxPeriod  = 1_000_000
	stdPeriod  = 100_000
	mostPerSec = 1 << 40
)

// quota is the content of cpu.max. A quota that would be too small in the
// standard period gets a longer one, as systemd does it.
func quota(perSec uint64) string {
	switch perSec {
	case 0:
		return ""
	case NoLimit:
		return "max " + strconv.Itoa(stdPeriod)
	}
	perSec = min(perSec, mostPerSec)
	period := min(max(stdPeriod, minQuota*1_000_000/perSec), maxPeriod)
	return fmt.Sprintf("%d %d", max(perSec*period/1_000_000, minQuota), period)
}

// SetLimits applies what was asked for and says of each what the kernel's file
// holds afterwards, or why it does not hold; Asked is for the caller to fill
// in. It is called before anything is started in the unit.
//
// A controller is enabled where that is ours to do: in the cgroup that holds
// nothing but units of ours, in one that was named, and at the top of the
// hierarchy where PID 1 is not systemd; and only where no process is in that
// cgroup, or its children could hold none (cgroup-v2.rst, "No Internal Process
// Constraint"). What was enabled stays so.
//
// A unit out of memory is killed as a whole (memory.oom.group), as systemd
// stops a whole unit: what is left of a job that lost a process is no job.
func (u *Unit) SetLimits(l Limits) []unit.Limit {
	var out []unit.Limit
	for _, s := range l.settings() {
		out = append(out, u.set(s))
	}
	return out
}

func (u *Unit) set(s setting) unit.Limit {
	lim := unit.Limit{Name: s.name}
	if lim.Found = u.enable(s.controller, true); lim.Found != "" {
		return lim
	}
	if err := writeAt(int(u.dir.Fd()), s.file, s.value); err != nil {
		lim.Found = fmt.Sprintf("cannot write %s to %s: %v", s.value, s.file, err)
		return lim
	}
	found, err := readAt(int(u.dir.Fd()), s.file)
	if err != nil {
		lim.Found = fmt.Sprintf("cannot read %s back: %v", s.file, err)
		return lim
	}
	lim.Found = strings.TrimSuffix(found, "\n")
	lim.Applied = lim.Found != "max" && !strings.HasPrefix(lim.Found, "max ")
	if s.controller == "memory" && lim.Applied {
		// Linux 4.19. Without it the kernel ends one process only.
		_ = writeAt(int(u.dir.Fd()), "memory.oom.group", "1")
	}
	return lim
}

// enable gives the unit a controller, or says why it cannot have it. Without
// do it changes nothing and says what would be.
func (u *Unit) enable(controller string, do bool) (why string) {
	if has(int(u.dir.Fd()), "cgroup.controllers", controller) {
		return ""
	}
	p := u.parent
	holder := int(u.holder.Fd())
	switch {
	case p.shared && !has(holder, "cgroup.controllers", controller):
		base, _, err := p.h.beneath(p.base)
		if err != nil {
			return err.Error()
		}
		defer unix.Close(base)
		if why := enableIn(base, p.base, controller, p.mine, do); why != "" {
			return why
		}
		if !do {
			return ""
		}
		return enableIn(holder, p.Path, controller, true, do)
	case p.shared:
		return enableIn(holder, p.Path, controller, true, do)
	}
	return enableIn(holder, p.Path, controller, p.mine, do)
}

// enableIn gives a controller to the children of one cgroup.
func enableIn(dir int, name, controller string, mine, do bool) (why string) {
	if has(dir, "cgroup.subtree_control", controller) {
		return ""
	}
	if !has(dir, "cgroup.controllers", controller) {
		return fmt.Sprintf("the %s controller is not delegated to %s", controller, name)
	}
	kind, err := readAt(dir, "cgroup.type")
	if top := errors.Is(err, unix.ENOENT); !top {
		found, unseen, err := pids(dir)
		if err != nil {
			return fmt.Sprintf("cannot read cgroup.procs of %s: %v", name, err)
		}
		if len(found)+unseen > 0 {
			return fmt.Sprintf("the %s controller is not enabled for the children of %s, and cannot be: it has processes of its own", controller, name)
		}
	}
	if !mine {
		return fmt.Sprintf("the %s controller is not enabled for the children of %s, which is not ours to change", controller, name)
	}
	if !do {
		return ""
	}
	if err := writeAt(dir, "cgroup.subtree_control", "+"+controller); err != nil {
		return fmt.Sprintf("cannot enable the %s controller for the children of %s: %v", controller, name, err)
	}
	// Had a process come meanwhile, a controller like pids would make it the
	// root of a threaded tree.
	if now, err := readAt(dir, "cgroup.type"); err == nil && now != kind {
		_ = writeAt(dir, "cgroup.subtree_control", "-"+controller)
		return fmt.Sprintf("the %s controller cannot be enabled for the children of %s: processes came into it", controller, name)
	}
	return ""
}

// has is true when a file of a cgroup lists a controller.
func has(dir int, file, controller string) bool {
	s, err := readAt(dir, file)
	return err == nil && slices.Contains(strings.Fields(s), controller)
}

// writeAt writes one file of a cgroup. The kernel takes a value whole or not
// at all.
func writeAt(dir int, name, value string) error {
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte(value))
	return err
}
