package main

import (
	"fmt"
	"slices"
	"strings"
)

// Target is an emulated machine to test in: a suite's systemd and kernel, with
// one arrangement of control groups.
type Target struct {
	Suite
	Hierarchy Hierarchy
}

// Hierarchy is how systemd mounts control groups (cgroups(7)).
type Hierarchy string

const (
	// Unified is cgroup v2 alone.
	Unified Hierarchy = "unified"
	// Hybrid has the processes of units in a cgroup v2 without controllers,
	// beside cgroup v1, which has those.
	Hybrid Hierarchy = "hybrid"
	// Legacy is cgroup v1 alone.
	Legacy Hierarchy = "legacy"
)

// kernelArgs make systemd mount the hierarchy (systemd(1)).
func (h Hierarchy) kernelArgs() []string {
	switch h {
	case Hybrid:
		return []string{"systemd.unified_cgroup_hierarchy=0", "systemd.legacy_systemd_cgroup_controller=0"}
	case Legacy:
		return []string{"systemd.unified_cgroup_hierarchy=0", "systemd.legacy_systemd_cgroup_controller=1"}
	}
	return nil
}

// Targets are all emulated machines: each suite as it boots by itself, and those
// whose systemd mounts cgroup v1 when it is told to, so, too. 257 no longer does.
func Targets() []Target {
	var all []Target
	for _, s := range Suites {
		all = append(all, Target{s, Unified})
		if s.Name == "bullseye" || s.Name == "bookworm" {
			all = append(all, Target{s, Hybrid}, Target{s, Legacy})
		}
	}
	return all
}

// word names the target on the command line and in the report.
func (t Target) word() string {
	if t.Hierarchy == Unified {
		return t.Name
	}
	return t.Name + "-" + string(t.Hierarchy)
}

// String names the target together with its systemd.
func (t Target) String() string {
	return strings.Replace(t.Suite.String(), t.Name, t.word(), 1)
}

// log is the name of the target's log, in the directory of its suite.
func (t Target) log() string {
	return "vm" + strings.TrimPrefix(t.word(), t.Name) + ".log"
}

// ParseTargets reads a comma-separated list; "all" is every target, "none" and
// "" are no target.
func ParseTargets(list string) ([]Target, error) {
	all := Targets()
	switch list {
	case "all":
		return all, nil
	case "", "none":
		return nil, nil
	}
	var out []Target
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		i := slices.IndexFunc(all, func(t Target) bool { return t.word() == word })
		if i < 0 {
			return nil, usageError(fmt.Sprintf("cannot find the emulated machine %q: there are %s", word, words(all)))
		}
		out = append(out, all[i])
	}
	return out, nil
}

func words(targets []Target) string {
	var out []string
	for _, t := range targets {
		out = append(out, t.word())
	}
	return strings.Join(out, ", ")
}

// suitesOf are the suites of targets.
func suitesOf(targets []Target) []Suite {
	var out []Suite
	for _, t := range targets {
		out = append(out, t.Suite)
	}
	return out
}

// machineTests are for every emulated machine.
const machineTests = `^TestVM`

// caseTests are tests of the cases, in some isolations, and scripts of them; no
// scripts are "".
func caseTests(isolations, scripts string) string {
	tests := []string{
		`^(TestForeignCgroupStays|TestLadderGoesOn|TestLegacy)$`,
		`^(TestKilledRun|TestKilledKeepers|TestKillsReaper|TestMemberOfAnotherUser|TestOtherBoot|TestReusedPID|TestKeptLimits)$/^(` + isolations + `)$`,
		`^TestTamperedRecord$/^(` + isolations + `)$/^(invocation_id|cgroup_inode|boot_id)$`,
		`^TestBytes$/^(` + isolations + `)$/^not_UTF-8$`,
	}
	if scripts != "" {
		tests = append(tests, `^TestScripts$/^(`+isolations+`)$/^(`+scripts+`)$`)
	}
	return strings.Join(tests, "|")
}

// tests are those that run in the target, a regular expression. Those of the cases
// run where nothing but an emulated machine has what they depend on: a kernel
// without cgroup.kill, which isolation cgroup rests on, and cgroup v1. Scripts that
// wait a lot run on the older of two.
func (t Target) tests() string {
	oldest := t.Name == "bullseye"
	switch {
	case t.Hierarchy == Hybrid:
		return `^TestVM(Hierarchy|UserScope|Stubborn|LimitsHeld|TasksCurrent)$|^TestKilledRun$/^(service|scope)$|` + caseTests("cgroup", "run_storm") + `|^TestScripts$/^service$/^run_storm$`
	case t.Hierarchy == Legacy && oldest:
		return legacyTests + caseTests("service", "stop_no_wait")
	case t.Hierarchy == Legacy:
		return legacyTests + caseTests("service", "")
	case oldest:
		return machineTests + `|` + caseTests("cgroup", "run_storm|stop_no_wait")
	case t.Name == "sid": // the kernel that kills at birth what a killed cgroup starts
		return machineTests + `|^TestCallerOnceKilled$`
	}
	return machineTests
}

const legacyTests = `^TestVM(Hierarchy|Legacy|Stubborn|TasksCurrent|Uninterruptible)$|`

// skips are those of its tests that do not run in the target, a regular expression;
// empty is none. What is of the kernel alone runs on the oldest, which has no
// cgroup.kill, and the newest, and so does what is the same in a user's own cgroup.
func (t Target) skips() string {
	switch {
	case t.Name == "bullseye" || t.Name == "sid" || t.Hierarchy == Legacy:
		return ""
	case t.Hierarchy == Hybrid:
		return `^TestVMUserScope$`
	}
	return `^TestVM(UserScope|Units)$`
}
